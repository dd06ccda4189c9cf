//! `cuGetProcAddress`: the driver answers first, then its function is replaced by our hook of it.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;

use rtswap_agent_core::cuda::Status;

use super::{Address, Hook, all, hooks};

hooks! {
    reentrant get_proc_address: cuGetProcAddress (
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64);
    reentrant get_proc_address_v2: cuGetProcAddress_v2 (
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut c_uint);
}

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD: u64 = 2;

/// The newest CUDA version whose forms of functions are known here.
const NEWEST: c_int = 13_040;

/// From which CUDA version on a name means its later form, where that is not 3.2. (cudaTypedefs.h)
const SINCE: &[(&CStr, c_int)] = &[
    (c"cuCtxCreate_v3", 11_040),
    (c"cuCtxCreate_v4", 12_050),
    (c"cuCtxDestroy_v2", 4_000),
    (c"cuDevicePrimaryCtxRelease_v2", 11_000),
    (c"cuDevicePrimaryCtxReset_v2", 11_000),
    (c"cuGetProcAddress_v2", 12_000),
    (c"cuGraphAddKernelNode_v2", 12_000),
    (c"cuGraphAddNode_v2", 12_030),
    (c"cuGraphAddNode_v3", 13_040),
    (c"cuGraphExecUpdate_v2", 12_000),
    (c"cuGraphInstantiate_v2", 11_000),
    (c"cuGraphNodeSetParams_v2", 13_040),
    (c"cuIpcOpenMemHandle_v2", 11_000),
    (c"cuLaunchHostFunc_v2", 13_010),
    (c"cuMemAdvise_v2", 12_020),
    (c"cuMemHostRegister_v2", 6_050),
    (c"cuMemPrefetchAsync_v2", 12_020),
    (c"cuMemcpy3DBatchAsync_v2", 13_000),
    (c"cuMemcpyBatchAsync_v2", 13_000),
    (c"cuMulticastBindAddr_v2", 13_010),
    (c"cuMulticastBindMem_v2", 13_010),
    (c"cuStreamBatchMemOp_v2", 11_070),
    (c"cuStreamBeginCapture_v2", 10_010),
    (c"cuStreamDestroy_v2", 4_000),
    (c"cuStreamWaitValue32_v2", 11_070),
    (c"cuStreamWaitValue64_v2", 11_070),
    (c"cuStreamWriteValue32_v2", 11_070),
    (c"cuStreamWriteValue64_v2", 11_070),
];

/// From CUDA 12 on the first name means the second function. (cuda.h)
const RENAMED: (&[u8], &[u8], c_int) = (
    b"cuGraphInstantiate",
    b"cuGraphInstantiateWithFlags",
    12_000,
);

unsafe fn get_proc_address(
    real: cuGetProcAddress::Function,
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(symbol, found, version, flags) };
    let ask = |version| {
        let mut found = null_mut();
        // SAFETY: the caller's name and flags, and a place of ours.
        let status = unsafe { real(symbol, &raw mut found, version, flags) };
        (status == Status::SUCCESS).then_some(found)
    };
    // SAFETY: the driver filled `found`, and read `symbol`.
    unsafe { replace(status, symbol, found, version, flags, ask) };
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
    let ask = |version| {
        let (mut found, mut answer) = (null_mut(), 0);
        // SAFETY: the caller's name and flags, and places of ours.
        let status = unsafe { real(symbol, &raw mut found, version, flags, &raw mut answer) };
        (status == Status::SUCCESS).then_some(found)
    };
    // SAFETY: the driver filled `found`, and read `symbol`.
    unsafe { replace(status, symbol, found, version, flags, ask) };
    status
}

/// Puts our hook in the place of the driver's function; `ask` asks the driver for the same name as
/// of another version.
///
/// # Safety
/// After a success `symbol` is a C string and `found` may be written.
unsafe fn replace(
    status: Status,
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
    ask: impl Fn(c_int) -> Option<Address>,
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
            // A driver may hand out other addresses than those that it exports. Then the name tells,
            // unless the address is another function's, or this is a later form than we know.
            if is_exported(address) || version > NEWEST && ask(NEWEST) != Some(address) {
                return None;
            }
            let hook = by_name(symbol.to_bytes(), version, flags & PER_THREAD != 0)?;
            if hook.real.get(hook.name).is_null() {
                hook.real.learn(address);
            }
            Some(hook)
        });
    if let Some(hook) = hook {
        // SAFETY: by the caller's promise.
        unsafe { *found = hook.address as Address };
    }
}

/// Whether some library exports a function at this address.
fn is_exported(address: Address) -> bool {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: fills what it finds; zeros are valid where it finds nothing.
    let info = unsafe {
        libc::dladdr(address, info.as_mut_ptr());
        info.assume_init()
    };
    info.dli_saddr == address
}

/// The hook of the form of a function that `version` means by `symbol`.
fn by_name(symbol: &[u8], version: c_int, per_thread: bool) -> Option<&'static Hook> {
    let (former, renamed, since) = RENAMED;
    let symbol = if symbol == former && version >= since {
        renamed
    } else {
        symbol
    };
    let form = |name: &[u8]| {
        let (name, threaded) = match name.strip_suffix(b"_ptsz").or(name.strip_suffix(b"_ptds")) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let number = match name.strip_prefix(symbol)? {
            b"" => 1,
            [b'_', b'v', digit @ b'2'..=b'9'] => digit - b'0',
            _ => return None,
        };
        let listed = SINCE.iter().find(|(listed, _)| listed.to_bytes() == name);
        let since = listed.map_or(if number == 1 { 0 } else { 3_020 }, |(_, since)| *since);
        (since <= version && (per_thread || !threaded)).then_some((number, threaded))
    };
    let (best, hook) = all()
        .filter_map(|hook| Some((form(hook.name.to_bytes())?, hook)))
        .max_by_key(|(form, _)| *form)?;
    // Another form than the hooked ones may be meant.
    let mut listed = SINCE.iter().filter_map(|(name, _)| form(name.to_bytes()));
    listed.all(|(number, _)| number <= best.0).then_some(hook)
}
