//! cuGetProcAddress, answered from the table of exports, and cuGetExportTable, which knows no table.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::config::CUDA_13;
use simgpu_core::{Error, Result, driver};

use super::exports;
use crate::abi::{Out, Text};
use crate::export::Export;

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD: u64 = 2;
/// This and CU_GET_PROC_ADDRESS_LEGACY_STREAM; when both are given, the thread's stream it is.
const FLAGS: u64 = 3;

/// CUdriverProcAddressQueryResult.
const FOUND: c_uint = 0;
const NOT_FOUND: c_uint = 1;
const VERSION_NOT_SUFFICIENT: c_uint = 2;

api! {
    11030 early fn cuGetProcAddress(
        symbol: Text, address: Out<*mut c_void>, version: c_int, flags: u64,
    ) {
        // The first form leaves the pointer where there is nothing to put there.
        let export = look_up(&symbol, version, flags)?.map_err(|_| Error::NotFound)?;
        address.set(export.address as *mut c_void)
    }

    12000 early fn cuGetProcAddress_v2(
        symbol: Text,
        address: Out<*mut c_void>,
        version: c_int,
        flags: u64,
        status: Out<c_uint>,
    ) {
        // A name without a function is no error here.
        let (found, why) = match look_up(&symbol, version, flags)? {
            Ok(export) => (export.address as *mut c_void, FOUND),
            Err(why) => (std::ptr::null_mut(), why),
        };
        address.set(found)?;
        status.set_if_wanted(why);
        Ok(())
    }

    3000 early fn cuGetExportTable(table: Out<*const c_void>, _id: usize) {
        // As NVIDIA's library answers where it has no table of that id.
        table.set(std::ptr::null())?;
        Err(Error::InvalidValue)
    }
}

/// The function, or the reason why there is none. Versions are compared as unsigned numbers: a negative one is above all.
fn look_up(symbol: &Text, version: c_int, flags: u64) -> Result<Result<&'static Export, c_uint>> {
    let name = symbol.get()?.to_str().map_err(|_| Error::InvalidValue)?;
    let (version, newest) = (
        version.cast_unsigned(),
        driver::cuda_version().cast_unsigned(),
    );
    // Drivers of CUDA 13 refuse versions above their own, those before answer.
    if flags & !FLAGS != 0 || (newest >= CUDA_13.cast_unsigned() && version > newest) {
        return Err(Error::InvalidValue);
    }
    Ok(best(name, version.min(newest), flags & PER_THREAD != 0))
}

/// The newest form of a function that `version` knows; with the thread's default stream if that is wanted and the function
/// has a stream, which is so since CUDA 7.0 only.
fn best(name: &str, version: u32, per_thread: bool) -> Result<&'static Export, c_uint> {
    let named = || exports().filter(|export| export.is_handed_out() && export.base() == name);
    let per_thread = per_thread && named().any(Export::is_per_thread);
    let known = |export: &&Export| export.since.cast_unsigned() <= version;
    let newest = named()
        .filter(|export| export.is_per_thread() == per_thread)
        .filter(known)
        .max_by_key(|export| export.since);
    let is_there = || named().any(|export| export.since <= driver::cuda_version());
    let why = || {
        if is_there() {
            VERSION_NOT_SUFFICIENT
        } else {
            NOT_FOUND
        }
    };
    newest.ok_or_else(why)
}
