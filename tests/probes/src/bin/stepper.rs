//! Calls the driver as it is told, one call a line of standard input, and prints `RESULT VALUE` after each: what
//! the call returned, and what it gave. `%N` stands for what line N gave, from 1; `'TEXT`
//! for its address.

use std::collections::BTreeMap;
use std::ffi::{CString, c_uint, c_void};
use std::io::{BufRead as _, stdin};

/// Any function of up to six integer arguments; the driver's are no others.
type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> c_uint;

struct Driver {
    library: *mut c_void,
    found: BTreeMap<String, Function>,
}

impl Driver {
    fn function(&mut self, name: &str) -> Function {
        let library = self.library;
        *self.found.entry(name.to_owned()).or_insert_with(|| {
            let symbol = CString::new(name).expect("no zero byte");
            // SAFETY: an open library, a name that ends.
            let address = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            assert!(!address.is_null(), "the driver lacks {name}");
            // SAFETY: integer arguments are passed alike whatever their number.
            unsafe { std::mem::transmute::<*mut c_void, Function>(address) }
        })
    }
}

/// Where calls put what they give.
#[repr(C, align(16))]
#[derive(Default)]
struct Given([u64; 16]);

fn main() {
    // SAFETY: the driver's initialisers may run.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "no libcuda.so.1");
    let mut driver = Driver {
        library,
        found: BTreeMap::new(),
    };
    let mut values = Vec::new();
    println!("ready");
    for line in stdin().lock().lines() {
        let line = line.expect("text");
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        if name == "exec" {
            let program = CString::new(words.next().expect("a program")).expect("a path");
            let arguments = [program.as_ptr(), std::ptr::null()];
            // SAFETY: a program and its ended list of arguments.
            unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
            panic!("exec {}", std::io::Error::last_os_error());
        }
        if name == "thread_exits" {
            std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_mins(1)));
            // SAFETY: ends this thread alone, the process's first; the other needs nothing of it.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let mut given = Given::default();
        // CUmemAllocationProp and CUmemPoolProps: pinned, on GPU 0; and CUDA_ARRAY3D_DESCRIPTOR.
        let properties: [u64; 16] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // The same in the host; its second word is the CUmemLocation.
        let host: [u64; 16] = [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let shape: [u64; 6] = [256, 256, 0, (4 << 32) | 0x20, 0, 0];
        // The same in the first forms, CUDA_ARRAY_DESCRIPTOR_v1 and CUDA_ARRAY3D_DESCRIPTOR_v1.
        let first_flat: [u32; 4] = [256, 256, 0x20, 4];
        let first_shape: [u32; 6] = [256, 256, 0, 0x20, 4, 0];
        let arguments: Vec<u64> = words
            .map(|word| match word {
                "out" => (&raw mut given.0[0]).addr() as u64,
                "out2" => (&raw mut given.0[1]).addr() as u64,
                "properties" => properties.as_ptr().addr() as u64,
                "location" => (&raw const properties[1]).addr() as u64,
                "host_properties" => host.as_ptr().addr() as u64,
                "host_location" => (&raw const host[1]).addr() as u64,
                "shape" => shape.as_ptr().addr() as u64,
                "first_flat" => first_flat.as_ptr().addr() as u64,
                "first_shape" => first_shape.as_ptr().addr() as u64,
                _ if word.starts_with('\'') => {
                    let name = CString::new(&word[1..]).expect("no zero byte");
                    // For as long as the program runs: the driver may keep it.
                    name.into_raw().addr() as u64
                }
                _ => match word.strip_prefix('%') {
                    Some(line) => values[line.parse::<usize>().expect("a line") - 1],
                    None => word.parse().expect("a number"),
                },
            })
            .collect();
        let argument = |number: usize| arguments.get(number).copied().unwrap_or(0);
        let call = driver.function(name);
        // SAFETY: as the test that says the line knows the function.
        let result = unsafe {
            call(
                argument(0),
                argument(1),
                argument(2),
                argument(3),
                argument(4),
                argument(5),
            )
        };
        // SAFETY: the call may have written it through its address.
        let value = unsafe { (&raw const given.0[0]).read_volatile() };
        values.push(value);
        println!("step {} {result} {value}", values.len());
    }
}
