//! The loader's own functions. A library that exports `dlsym` cannot ask for `dlsym`: it would be
//! told its own. So the real one is read out of libc's symbol table.
//!
//! No function of another library is called here, and no lock taken: other preloaded libraries put
//! their own `malloc` or `dlopen` before libc's, and look up the real one by `dlsym` at its first
//! call, which would come back here before this is done.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The loader's functions.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    /// dlsym.
    pub dlsym: Dlsym,
    /// dlvsym.
    pub dlvsym: Dlvsym,
}

/// The loader's functions. Nothing on a libc that keeps them elsewhere.
pub fn loader() -> Option<Loader> {
    static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    static DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let known = |slot: &AtomicPtr<c_void>, symbol| {
        let known = slot.load(Ordering::Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        // Since glibc 2.34 they live in libc, before that in libdl.
        let found = [c"libc.so.6", c"libdl.so.2"]
            .into_iter()
            .find_map(|library| find(library, symbol))?;
        slot.store(found, Ordering::Relaxed);
        Some(found)
    };
    let (dlsym, dlvsym) = (known(&DLSYM, c"dlsym")?, known(&DLVSYM, c"dlvsym")?);
    // SAFETY: glibc's functions of these names have these signatures.
    unsafe {
        Some(Loader {
            dlsym: core::mem::transmute::<*mut c_void, Dlsym>(dlsym),
            dlvsym: core::mem::transmute::<*mut c_void, Dlvsym>(dlvsym),
        })
    }
}

/// glibc's struct r_debug, as far as it never changed.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
}

unsafe extern "C" {
    /// The loader's list of what is loaded, as debuggers read it.
    static _r_debug: Debug;
}

/// glibc's struct link_map, its public part.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
}

#[repr(C)]
pub(crate) struct Dynamic {
    pub(crate) tag: i64,
    pub(crate) value: usize,
}

#[repr(C)]
pub(crate) struct Symbol {
    pub(crate) name: u32,
    info: u8,
    other: u8,
    /// 0 where the symbol is defined elsewhere.
    pub(crate) section: u16,
    value: usize,
    size: usize,
}

pub(crate) const DT_STRTAB: i64 = 5;
pub(crate) const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// The address of `symbol` as `library` defines it, which was loaded with the program: libc, or what
/// it came with.
pub fn find(library: &CStr, symbol: &CStr) -> Option<*mut c_void> {
    // SAFETY: the loader made the list before any code of ours ran. What is loaded later is
    // appended, so that the walk up to a library of the program's start never meets a change.
    unsafe {
        let mut map = (&raw const _r_debug.map).read();
        while let Some(loaded) = map.as_ref() {
            let name = CStr::from_ptr(loaded.name).to_bytes();
            if name.rsplit(|&byte| byte == b'/').next() == Some(library.to_bytes()) {
                return find_in(loaded.base, loaded.dynamic, symbol);
            }
            map = loaded.next;
        }
        None
    }
}

/// The values of some tags of a dynamic section; 0 where there is none.
///
/// # Safety
/// `dynamic` is the dynamic section of a loaded object.
pub(crate) unsafe fn values<const N: usize>(dynamic: *const Dynamic, tags: [i64; N]) -> [usize; N] {
    let mut found = [0; N];
    let mut entry = dynamic;
    loop {
        // SAFETY: the dynamic section ends with a zero tag.
        let Dynamic { tag, value } = unsafe { entry.read() };
        if tag == 0 {
            return found;
        }
        if let Some(index) = tags.iter().position(|wanted| *wanted == tag) {
            found[index] = value;
        }
        // SAFETY: not the last entry.
        entry = unsafe { entry.add(1) };
    }
}

/// The address of a table of an object: the loader made it one, but for the kernel's own object.
pub(crate) fn address(base: usize, value: usize) -> usize {
    if value < base { base + value } else { value }
}

/// # Safety
/// `dynamic` is the dynamic section of an object that is loaded at `base`.
pub(crate) unsafe fn find_in(
    base: usize,
    dynamic: *const Dynamic,
    symbol: &CStr,
) -> Option<*mut c_void> {
    // SAFETY: by the caller's promise.
    let found = unsafe { values(dynamic, [DT_STRTAB, DT_SYMTAB, DT_GNU_HASH]) };
    if found.contains(&0) {
        return None;
    }
    let [strings, symbols, hash] = found.map(|value| address(base, value));
    let (strings, symbols) = (strings as *const c_char, symbols as *const Symbol);
    // SAFETY: the GNU hash table of a loaded library: a header of four words, `bloom` 64-bit
    // words, `buckets` words, then one word for each symbol from `first` on, whose lowest bit ends
    // a bucket.
    unsafe {
        let header = hash as *const u32;
        let (buckets, first, bloom) = (*header, *header.add(1), *header.add(2));
        if buckets == 0 {
            return None;
        }
        let bucket = header.add(4 + 2 * bloom as usize);
        let chain = bucket.add(buckets as usize);
        let wanted = gnu_hash(symbol.to_bytes());
        let mut index = *bucket.add((wanted % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let hashed = *chain.add((index - first) as usize);
            let entry = &*symbols.add(index as usize);
            if hashed | 1 == wanted | 1
                && entry.section != 0
                && CStr::from_ptr(strings.add(entry.name as usize)) == symbol
            {
                return Some((base + entry.value) as *mut c_void);
            }
            if hashed & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_dlsym_is_found_without_dlsym() {
        let loader = loader().expect("glibc");
        assert_eq!(loader.dlsym as usize, libc::dlsym as *const () as usize);
        assert_eq!(find(c"libc.so.6", c"no_such_symbol_anywhere"), None);
        assert_eq!(find(c"libno_such_library.so", c"dlsym"), None);
        // SAFETY: a lookup by the loader's own function.
        let getpid = unsafe { (loader.dlsym)(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
        assert_eq!(Some(getpid), find(c"libc.so.6", c"getpid"));
    }
}
