//! `cuGetProcAddress`: the driver answers first, then its function is replaced by our hook of it.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use rtswap_agent_core::cuda::Status;

use super::{Hook, all, hooks};

hooks! {
    get_proc_address: cuGetProcAddress (
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64);
    get_proc_address_v2: cuGetProcAddress_v2 (
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut c_uint);
}

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD: u64 = 2;

/// From which CUDA version on a name means its later form, where that is not 3.2 (or 4.0).
const SINCE: &[(&CStr, c_int)] = &[
    (c"cuCtxCreate_v3", 11_040),
    (c"cuCtxCreate_v4", 12_050),
    (c"cuDevicePrimaryCtxRelease_v2", 11_000),
    (c"cuDevicePrimaryCtxReset_v2", 11_000),
    (c"cuGetProcAddress_v2", 12_000),
    (c"cuMemPrefetchAsync_v2", 12_020),
    (c"cuMemPrefetchAsync_v2_ptsz", 12_020),
    (c"cuStreamBatchMemOp_v2", 11_070),
    (c"cuStreamBatchMemOp_v2_ptsz", 11_070),
    (c"cuStreamBeginCapture_v2", 10_010),
    (c"cuStreamBeginCapture_v2_ptsz", 10_010),
    (c"cuStreamWaitValue32_v2", 11_070),
    (c"cuStreamWaitValue32_v2_ptsz", 11_070),
    (c"cuStreamWaitValue64_v2", 11_070),
    (c"cuStreamWaitValue64_v2_ptsz", 11_070),
    (c"cuStreamWriteValue32_v2", 11_070),
    (c"cuStreamWriteValue32_v2_ptsz", 11_070),
    (c"cuStreamWriteValue64_v2", 11_070),
    (c"cuStreamWriteValue64_v2_ptsz", 11_070),
];

unsafe fn get_proc_address(
    real: cuGetProcAddress::Function,
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(symbol, found, version, flags) };
    // SAFETY: the driver filled `found`, and read `symbol`.
    unsafe { replace(status, symbol, found, version, flags) };
    status
}

unsafe fn get_proc_address_v2(
    real: cuGetProcAddress_v2::Function,
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
    answer: *mut c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(symbol, found, version, flags, answer) };
    // SAFETY: the driver filled `found`, and read `symbol`.
    unsafe { replace(status, symbol, found, version, flags) };
    status
}

/// # Safety
/// After a success `symbol` is a C string and `found` may be written.
unsafe fn replace(
    status: Status,
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
) {
    if status != Status::SUCCESS || symbol.is_null() || found.is_null() {
        return;
    }
    // SAFETY: by the caller's promise.
    let (address, symbol) = unsafe { (*found, CStr::from_ptr(symbol)) };
    if address.is_null() {
        return;
    }
    let hook = all()
        .find(|hook| hook.real.get(hook.name) == address)
        .or_else(|| {
            // A driver that hands out addresses other than the exported ones.
            let hook = by_name(symbol.to_bytes(), version, flags & PER_THREAD != 0)?;
            if hook.real.get(hook.name).is_null() {
                hook.real.learn(address);
            }
            Some(hook)
        });
    if let Some(hook) = hook {
        // SAFETY: by the caller's promise.
        unsafe { *found = hook.address as *mut c_void };
    }
}

/// The hook of the form of a function that `version` means by `symbol`.
fn by_name(symbol: &[u8], version: c_int, per_thread: bool) -> Option<&'static Hook> {
    let form = |hook: &&Hook| {
        let rest = hook.name.to_bytes().strip_prefix(symbol)?;
        let (rest, threaded) = match rest.strip_suffix(b"_ptsz").or(rest.strip_suffix(b"_ptds")) {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let number = match rest {
            b"" => 1,
            [b'_', b'v', digit @ b'2'..=b'9'] => digit - b'0',
            _ => return None,
        };
        let listed = SINCE.iter().find(|(name, _)| *name == hook.name);
        let since = listed.map_or(if number == 1 { 0 } else { 3_020 }, |(_, since)| *since);
        (since <= version && (per_thread || !threaded)).then_some((number, threaded))
    };
    all()
        .filter_map(|hook| Some((form(&hook)?, hook)))
        .max_by_key(|(form, _)| *form)
        .map(|(_, hook)| hook)
}
