//! Allocates and frees on the first GPU, without any library of ours: `allocator THREADS CALLS SEED [UID]`.
//!
//! Each thread makes so many allocations of random sizes and frees most of them. Prints what it holds, `held
//! ASKED GRANULES`: the bytes it asked for, and as whole granules of 2 MiB; on a line of standard input it frees
//! the rest and prints it again, on another it ends.
//!
//! `allocator flood OBJECTS UID` makes small objects as that user and keeps them: prints `held ASKED OBJECTS`, and
//! ends on a line.

use std::ffi::{c_int, c_uint, c_void};
use std::io::{BufRead as _, stdin};
use std::thread;

const GRANULE: u64 = 2 << 20;
/// Live objects of one thread at most.
const MOST: usize = 3;
/// Bytes of the largest object.
const LARGEST: u64 = 3 * GRANULE;

type Init = unsafe extern "C" fn(c_uint) -> c_uint;
type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint;
type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_uint;
type Free = unsafe extern "C" fn(u64) -> c_uint;
type Set = unsafe extern "C" fn(*mut c_void) -> c_uint;

#[derive(Clone, Copy)]
struct Driver {
    alloc: Alloc,
    free: Free,
    set: Set,
}

/// A function of the driver, as the CUDA driver API documents its type.
macro_rules! function {
    ($library:expr, $name:literal, $type:ty) => {{
        // SAFETY: an open library, a name that ends.
        let found = unsafe { libc::dlsym($library, $name.as_ptr()) };
        assert!(!found.is_null(), "the driver lacks {:?}", $name);
        // SAFETY: the function of that name has this type.
        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
    }};
}

fn open() -> (Driver, usize) {
    // SAFETY: the driver's initialisers may run.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "no libcuda.so.1");
    let init = function!(library, c"cuInit", Init);
    let retain = function!(library, c"cuDevicePrimaryCtxRetain", Retain);
    let driver = Driver {
        alloc: function!(library, c"cuMemAlloc_v2", Alloc),
        free: function!(library, c"cuMemFree_v2", Free),
        set: function!(library, c"cuCtxSetCurrent", Set),
    };
    let mut context = std::ptr::null_mut();
    // SAFETY: a pointer to fill.
    unsafe {
        assert_eq!(init(0), 0, "cuInit");
        assert_eq!(retain(&raw mut context, 0), 0, "cuDevicePrimaryCtxRetain");
    }
    (driver, context.addr())
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// What one thread holds: address and size.
fn work(driver: Driver, context: usize, calls: u64, seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut held: Vec<(u64, u64)> = Vec::new();
    let context = std::ptr::without_provenance_mut(context);
    // SAFETY: the context that was retained.
    assert_eq!(unsafe { (driver.set)(context) }, 0, "cuCtxSetCurrent");
    for _ in 0..calls {
        if held.len() == MOST {
            let (at, _) = held.swap_remove(random.below(MOST as u64) as usize);
            // SAFETY: allocated below, freed once.
            assert_eq!(unsafe { (driver.free)(at) }, 0, "cuMemFree");
        }
        // Never less than half a granule: smaller ones share granules, and the driver's counters tell less.
        let bytes = (GRANULE / 2) + random.below(LARGEST - GRANULE / 2);
        let mut at = 0;
        // SAFETY: a pointer to fill. Running out of memory is part of the work.
        if unsafe { (driver.alloc)(&raw mut at, bytes as usize) } == 0 {
            held.push((at, bytes));
        }
    }
    held
}

/// Makes the process that user's. The effective user stays, which the simulated GPU's folder belongs to.
fn become_user(user: u32) {
    // SAFETY: it takes no pointer.
    let result = unsafe { libc::setreuid(user, libc::geteuid()) };
    assert_eq!(result, 0, "setreuid");
}

fn flood(objects: &str, user: &str) {
    /// Bytes of an object: as small as the driver makes them.
    const SMALL: u64 = 512;
    let objects: u64 = objects.parse().expect("a number");
    become_user(user.parse().expect("a number"));
    let (driver, context) = open();
    let context = std::ptr::without_provenance_mut(context);
    // SAFETY: the context that was retained.
    assert_eq!(unsafe { (driver.set)(context) }, 0, "cuCtxSetCurrent");
    for _ in 0..objects {
        let mut at = 0;
        // SAFETY: a pointer to fill.
        let result = unsafe { (driver.alloc)(&raw mut at, SMALL as usize) };
        assert_eq!(result, 0, "cuMemAlloc");
    }
    println!("held {} {objects}", objects * SMALL);
    stdin().lock().lines().next();
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, objects, user] = &words[..]
        && word == "flood"
    {
        return flood(objects, user);
    }
    let numbers: Vec<u64> = words
        .iter()
        .map(|number| number.parse().expect("a number"))
        .collect();
    let (threads, calls, seed) = match numbers[..] {
        [threads, calls, seed] => (threads, calls, seed),
        [threads, calls, seed, user] => {
            become_user(user as u32);
            (threads, calls, seed)
        }
        _ => panic!("allocator THREADS CALLS SEED [UID]"),
    };
    let (driver, context) = open();
    let workers: Vec<_> = (0..threads)
        .map(|number| thread::spawn(move || work(driver, context, calls, seed + number)))
        .collect();
    let held: Vec<_> = workers
        .into_iter()
        .flat_map(|worker| worker.join().expect("a worker"))
        .collect();
    let asked: u64 = held.iter().map(|(_, bytes)| bytes).sum();
    let granules: u64 = held
        .iter()
        .map(|(_, bytes)| bytes.next_multiple_of(GRANULE))
        .sum();
    println!("held {asked} {granules}");
    let mut lines = stdin().lock().lines();
    lines.next();
    // SAFETY: the context that was retained; each freed once.
    unsafe {
        assert_eq!((driver.set)(std::ptr::without_provenance_mut(context)), 0);
        for (at, _) in &held[held.len() / 2..] {
            assert_eq!((driver.free)(*at), 0, "cuMemFree");
        }
    }
    let rest: u64 = held[..held.len() / 2].iter().map(|(_, bytes)| bytes).sum();
    println!("rest {rest}");
    lines.next();
}
