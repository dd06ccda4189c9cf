//! Which private tables cuGetExportTable hands out.

use std::ffi::{CString, c_uint, c_void};
use std::ptr;

use anyhow::{Context, Result, ensure};

use crate::library::Library;

type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_uint;

/// Prints those of `uuids`, 32 hexadecimal digits each, for which there is a table.
pub(crate) fn print(library: &Library, uuids: &[CString]) -> Result<()> {
    let function = library.address(c"cuGetExportTable");
    ensure!(
        !function.is_null(),
        "the library exports no cuGetExportTable"
    );
    // SAFETY: the driver's function of this name has this signature.
    let function = unsafe { std::mem::transmute::<*mut c_void, GetExportTable>(function) };
    for uuid in uuids {
        let uuid = uuid.to_str()?;
        let bytes = u128::from_str_radix(uuid, 16)
            .context("no UUID")?
            .to_be_bytes();
        let mut table = ptr::null();
        // SAFETY: a place for the address, and 16 bytes.
        if unsafe { function(&raw mut table, &raw const bytes) } == 0 {
            println!("{uuid}");
        }
    }
    Ok(())
}
