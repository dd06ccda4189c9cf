//! Calls on command, for those who watch from outside.

use std::ffi::{CString, c_uint, c_void};

use anyhow::{Result, ensure};

use crate::library::Library;

/// The allocating functions, as cuMemAlloc_v2: a place for the result, and numbers.
type Allocate = unsafe extern "C" fn(*mut u64, usize, usize, usize, usize, usize) -> c_uint;

/// Prints `ready`, and at each line of stdin calls each of `names` once, which may not succeed, and prints `called`.
pub(crate) fn serve(library: &Library, names: &[CString]) -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lines() {
        line?;
        for name in names {
            let address = library.address(name);
            ensure!(!address.is_null(), "no {}", name.to_string_lossy());
            // SAFETY: an export that takes a place for its result first and at most five numbers more.
            let function = unsafe { std::mem::transmute::<*mut c_void, Allocate>(address) };
            let mut result = [0_u64; 8];
            // SAFETY: the place has room for whatever the function gives.
            let code = unsafe { function(result.as_mut_ptr(), 4096, 0, 0, 0, 0) };
            ensure!(
                code != 0,
                "{} succeeded without a device",
                name.to_string_lossy()
            );
        }
        println!("called");
    }
    Ok(())
}
