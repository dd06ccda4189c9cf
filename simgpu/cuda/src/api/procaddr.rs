//! cuGetProcAddress, answered from the table of exports.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::{Error, Result};

use super::exports;
use crate::abi::{Out, Text};
use crate::export::Export;

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD: u64 = 2;

/// CUdriverProcAddressQueryResult.
const FOUND: c_uint = 0;
const NOT_FOUND: c_uint = 1;
const VERSION_NOT_SUFFICIENT: c_uint = 2;

api! {
    11030 fn cuGetProcAddress(symbol: Text, address: Out<*mut c_void>, version: c_int, flags: u64) {
        get(&symbol, &address, version, flags).1
    }

    12000 fn cuGetProcAddress_v2(
        symbol: Text,
        address: Out<*mut c_void>,
        version: c_int,
        flags: u64,
        status: Out<c_uint>,
    ) {
        let (found, result) = get(&symbol, &address, version, flags);
        status.set_if_wanted(found);
        result
    }
}

fn get(
    symbol: &Text,
    address: &Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> (c_uint, Result<()>) {
    let name = match symbol.get().map(|name| name.to_str()) {
        Ok(Ok(name)) if flags <= PER_THREAD => name,
        _ => return (NOT_FOUND, Err(Error::InvalidValue)),
    };
    let (status, found) = match best(name, version, flags == PER_THREAD) {
        Some(export) if export.since <= version => (FOUND, export.address as *mut c_void),
        Some(_) => (VERSION_NOT_SUFFICIENT, std::ptr::null_mut()),
        None => (NOT_FOUND, std::ptr::null_mut()),
    };
    match address.set(found) {
        Ok(()) if status == FOUND => (status, Ok(())),
        Ok(()) => (status, Err(Error::NotFound)),
        Err(error) => (status, Err(error)),
    }
}

/// The newest form of a function that `version` knows, with the wanted default
/// stream where the function has one; failing that, a form that is too new.
fn best(name: &str, version: c_int, per_thread: bool) -> Option<&'static Export> {
    let named = || exports().filter(|export| export.base() == name);
    let known = |export: &&Export| export.since <= version;
    named()
        .filter(known)
        .filter(|export| export.is_per_thread() <= per_thread)
        .max_by_key(|export| (export.is_per_thread(), export.since))
        .or_else(|| named().next())
}
