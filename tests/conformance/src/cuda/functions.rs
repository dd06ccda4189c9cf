//! Their names and arguments, as cuda.h has them; enums are passed as numbers.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUfunction, CUgraph, CUipcMemHandle, CUmemAccessDesc,
    CUmemAllocationProp, CUmemLocation, CUmemoryPool, CUmodule,
};

use super::{Status, found};

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("The driver's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// What the driver's documentation asks of its arguments.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's own")]
            pub unsafe fn $name($($arg: $type),*) -> Status {
                static FUNCTION: OnceLock<unsafe extern "C" fn($($type),*) -> Status> = OnceLock::new();
                let function = FUNCTION.get_or_init(|| {
                    // SAFETY: the driver's ABI gives its function of this name this signature.
                    unsafe { std::mem::transmute(found(stringify!($name))) }
                });
                // SAFETY: the caller's.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

/// A CUmemGenericAllocationHandle.
pub type Handle = u64;
/// A CUstream, as a number: only the driver looks behind it.
pub type Stream = usize;
/// The legacy default stream.
pub const DEFAULT: Stream = 0;
/// A CUevent.
pub type Event = usize;
/// A CUhostFn.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

functions! {
    cuGetErrorName(code: u32, name: *mut *const c_char);
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: c_int);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxSynchronize();
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(at: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(at: CUdeviceptr);
    cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(at: *mut c_void);
    cuMemGetAddressRange_v2(base: *mut CUdeviceptr, bytes: *mut usize, at: CUdeviceptr);
    cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, at: CUdeviceptr);
    cuPointerGetAttributes(count: c_uint, attributes: *const c_uint, data: *const *mut c_void, at: CUdeviceptr);
    cuPointerSetAttribute(value: *const c_void, attribute: c_uint, at: CUdeviceptr);
    cuMemGetAllocationGranularity(bytes: *mut usize, of: *const CUmemAllocationProp, option: c_uint);
    cuMemCreate(handle: *mut Handle, bytes: usize, of: *const CUmemAllocationProp, flags: u64);
    cuMemRelease(handle: Handle);
    cuMemGetAllocationPropertiesFromHandle(of: *mut CUmemAllocationProp, handle: Handle);
    cuMemAddressReserve(at: *mut CUdeviceptr, bytes: usize, align: usize, hint: CUdeviceptr, flags: u64);
    cuMemAddressFree(at: CUdeviceptr, bytes: usize);
    cuMemMap(at: CUdeviceptr, bytes: usize, offset: usize, handle: Handle, flags: u64);
    cuMemUnmap(at: CUdeviceptr, bytes: usize);
    cuMemSetAccess(at: CUdeviceptr, bytes: usize, access: *const CUmemAccessDesc, count: usize);
    cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, at: CUdeviceptr);
    cuMemRetainAllocationHandle(handle: *mut Handle, at: *mut c_void);
    cuMemExportToShareableHandle(shared: *mut c_void, handle: Handle, kind: c_uint, flags: u64);
    cuMemImportFromShareableHandle(handle: *mut Handle, shared: *mut c_void, kind: c_uint);
    cuIpcGetMemHandle(handle: *mut CUipcMemHandle, at: CUdeviceptr);
    cuIpcOpenMemHandle_v2(at: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    cuIpcCloseMemHandle(at: CUdeviceptr);
    cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: Stream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: Stream);
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: Stream);
    cuMemsetD8_v2(at: CUdeviceptr, value: u8, bytes: usize);
    cuMemsetD8Async(at: CUdeviceptr, value: u8, bytes: usize, stream: Stream);
    cuMemAllocAsync(at: *mut CUdeviceptr, bytes: usize, stream: Stream);
    cuMemFreeAsync(at: CUdeviceptr, stream: Stream);
    cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: c_int);
    cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    cuStreamCreate(stream: *mut Stream, flags: c_uint);
    cuStreamDestroy_v2(stream: Stream);
    cuStreamQuery(stream: Stream);
    cuStreamSynchronize(stream: Stream);
    cuStreamWaitEvent(stream: Stream, event: Event, flags: c_uint);
    cuStreamBeginCapture_v2(stream: Stream, mode: c_uint);
    cuStreamEndCapture(stream: Stream, graph: *mut CUgraph);
    cuGraphDestroy(graph: CUgraph);
    cuEventCreate(event: *mut Event, flags: c_uint);
    cuEventRecord(event: Event, stream: Stream);
    cuEventQuery(event: Event);
    cuEventSynchronize(event: Event);
    cuEventElapsedTime(ms: *mut f32, from: Event, to: Event);
    cuEventDestroy_v2(event: Event);
    cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: Stream, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
    cuLaunchHostFunc(stream: Stream, function: HostFunction, data: *mut c_void);
    cuCheckpointProcessLock(pid: c_int, arguments: *mut c_void);
    cuCheckpointProcessCheckpoint(pid: c_int, arguments: *mut c_void);
    cuCheckpointProcessRestore(pid: c_int, arguments: *mut c_void);
    cuCheckpointProcessUnlock(pid: c_int, arguments: *mut c_void);
    cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64);
    cuGetProcAddress_v2(
        name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint
    );
}
