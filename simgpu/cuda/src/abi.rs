//! What crosses into C and back: checked pointers, structs in the driver's
//! layout, handles.
//!
//! Enumerations are plain integers here, because a program may pass any number.

mod place;

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::sys;
use simgpu_core::driver::{self, Context, Stream};
use simgpu_core::{Error, Result};

use crate::export::DefaultStream;

pub(crate) use place::{Buffer, In, Out, Text};

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// CU_MEM_LOCATION_TYPE_HOST, of which the id is ignored; _HOST_NUMA; _HOST_NUMA_CURRENT, likewise.
pub(crate) const ON_HOST: c_uint = 2;
pub(crate) const ON_NODE: c_uint = 3;
pub(crate) const ON_OWN_NODE: c_uint = 4;

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
pub(crate) const POSIX_FD: c_uint = 1;
/// CU_MEM_HANDLE_TYPE_FABRIC.
pub(crate) const FABRIC: c_uint = 8;

/// CU_MEM_LOCATION_TYPE_DEVICE.
pub(crate) const ON_DEVICE: c_uint = 1;

/// CUmemAllocationProp.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationProp {
    pub(crate) kind: c_uint,
    pub(crate) requested_handle_types: c_uint,
    pub(crate) location: Location,
    pub(crate) win32_meta_data: *mut c_void,
    /// Compression, RDMA, usage, reserved.
    pub(crate) flags: [u8; 8],
}

/// CUdevResource, as versions up to 12 have it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DevResource {
    pub(crate) kind: c_uint,
    padding: [u8; 92],
    pub(crate) multiprocessors: c_uint,
    rest: [u8; 44],
}

impl DevResource {
    /// So many multiprocessors.
    pub(crate) fn multiprocessors(count: c_uint) -> Self {
        Self {
            kind: 1,
            padding: [0; 92],
            multiprocessors: count,
            rest: [0; 44],
        }
    }
}

/// CUipcMemHandle, which is passed by value.
#[repr(C)]
pub(crate) struct IpcHandle(pub(crate) [u8; driver::IPC_HANDLE_BYTES]);

/// CUmemPoolProps.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolProps {
    pub(crate) kind: c_uint,
    pub(crate) handle_types: c_uint,
    pub(crate) location: Location,
    pub(crate) win32_security_attributes: *mut c_void,
    pub(crate) max_size: usize,
    /// Usage, reserved.
    pub(crate) rest: [u8; 56],
}

impl PoolProps {
    /// Those of plain memory on a device.
    pub(crate) fn on(device: c_int) -> Self {
        let location = Location {
            kind: ON_DEVICE,
            id: device,
        };
        Self {
            kind: 1,
            handle_types: 0,
            location,
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            rest: [0; 56],
        }
    }
}

/// CUmemAccessDesc.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AccessDesc {
    pub(crate) location: Location,
    pub(crate) flags: c_uint,
}

/// CUlaunchConfig.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: usize,
    pub(crate) attributes: *const c_void,
    pub(crate) attribute_count: c_uint,
}

/// CUDA_KERNEL_NODE_PARAMS of before CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNodeV1 {
    pub(crate) function: usize,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) arguments: In<In<u8>>,
    pub(crate) extra: In<usize>,
}

/// CUDA_KERNEL_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    pub(crate) v1: KernelNodeV1,
    pub(crate) kernel: usize,
    pub(crate) context: usize,
}

/// CUDA_MEMSET_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemsetNode {
    pub(crate) dst: u64,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_size: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// CUDA_HOST_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostNode {
    pub(crate) function: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) data: usize,
}

/// CUDA_MEM_ALLOC_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemAllocNode {
    pub(crate) pool: PoolProps,
    pub(crate) access: In<AccessDesc>,
    pub(crate) access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) address: u64,
}

/// CUDA_MEMCPY_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemcpyNode {
    flags: c_int,
    reserved: c_int,
    context: usize,
    pub(crate) copy: Rows3D,
}

/// CUgraphNodeParams.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    pub(crate) kind: c_uint,
    reserved: [c_int; 3],
    /// The union of what nodes of each kind need.
    of: [u64; 29],
    reserved2: u64,
}

/// What nodes of one kind need.
///
/// # Safety
/// Any bytes are a value.
pub(crate) unsafe trait NodeNeeds {}

// SAFETY: numbers, and pointers that are read only where C has put them; null is a function's None.
unsafe impl NodeNeeds for KernelNode {}
// SAFETY: as above.
unsafe impl NodeNeeds for MemcpyNode {}
// SAFETY: as above.
unsafe impl NodeNeeds for MemsetNode {}
// SAFETY: as above.
unsafe impl NodeNeeds for HostNode {}
// SAFETY: as above.
unsafe impl NodeNeeds for MemAllocNode {}
// SAFETY: a handle or an address.
unsafe impl NodeNeeds for u64 {}
// SAFETY: as above.
unsafe impl NodeNeeds for usize {}

impl Out<NodeParams> {
    /// What nodes of one kind need, at the union's place.
    pub(crate) fn of<T: NodeNeeds>(&self) -> Out<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 29]>()) };
        // SAFETY: the union lies within the parameters, and any bytes are a `T`.
        unsafe { self.within(offset_of!(NodeParams, of)) }
    }
}

/// CUDA_GRAPH_INSTANTIATE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstantiateParams {
    pub(crate) flags: u64,
    pub(crate) upload_stream: usize,
    pub(crate) error_node: usize,
    pub(crate) result: c_uint,
}

/// CUgraphExecUpdateResultInfo.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateInfo {
    pub(crate) result: c_uint,
    pub(crate) error_node: usize,
    pub(crate) error_from_node: usize,
}

/// One end of CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct End2D {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: usize,
    pub(crate) pitch: usize,
}

/// CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rows2D {
    pub(crate) src: End2D,
    pub(crate) dst: End2D,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One end of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which has a context where
/// the other has a reserved word.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct End3D {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: usize,
    pub(crate) context: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rows3D {
    pub(crate) src: End3D,
    pub(crate) dst: End3D,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// CUDA_ARRAY_DESCRIPTOR.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
}

/// CUDA_ARRAY3D_DESCRIPTOR.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Array3DDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}

/// CUDA_ARRAY_DESCRIPTOR_v1.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FirstArray {
    pub(crate) width: c_uint,
    pub(crate) height: c_uint,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
}

/// CUDA_ARRAY3D_DESCRIPTOR_v1.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FirstArray3D {
    pub(crate) width: c_uint,
    pub(crate) height: c_uint,
    pub(crate) depth: c_uint,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}

/// CUstreamBatchMemOpParams: waiting and writing have one layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemOp {
    pub(crate) operation: c_uint,
    pub(crate) address: u64,
    pub(crate) value: u64,
    pub(crate) flags: c_uint,
    pub(crate) rest: [u64; 2],
}

macro_rules! same_size {
    ($($ours:ident = $theirs:ident),* $(,)?) => {
        $(const _: () = assert!(size_of::<$ours>() == size_of::<sys::$theirs>());)*
    };
}
same_size! {
    KernelNode = CUDA_KERNEL_NODE_PARAMS_v2,
    MemsetNode = CUDA_MEMSET_NODE_PARAMS,
    HostNode = CUDA_HOST_NODE_PARAMS,
    MemAllocNode = CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    MemcpyNode = CUDA_MEMCPY_NODE_PARAMS,
    NodeParams = CUgraphNodeParams,
    InstantiateParams = CUDA_GRAPH_INSTANTIATE_PARAMS,
    UpdateInfo = CUgraphExecUpdateResultInfo,
    Rows2D = CUDA_MEMCPY2D,
    Rows3D = CUDA_MEMCPY3D,
    ArrayDescriptor = CUDA_ARRAY_DESCRIPTOR,
    Array3DDescriptor = CUDA_ARRAY3D_DESCRIPTOR,
    MemOp = CUstreamBatchMemOpParams,
    IpcHandle = CUipcMemHandle,
    AllocationProp = CUmemAllocationProp,
    PoolProps = CUmemPoolProps,
    AccessDesc = CUmemAccessDesc,
    LaunchConfig = CUlaunchConfig,
    DevResource = CUdevResource,
}
const _: () =
    assert!(offset_of!(NodeParams, of) == offset_of!(sys::CUgraphNodeParams, __bindgen_anon_1));
const _: () = assert!(size_of::<Rows3D>() == size_of::<sys::CUDA_MEMCPY3D_PEER>());

macro_rules! same_code {
    ($($error:ident = $name:ident),* $(,)?) => {
        $(const _: () = assert!(Error::$error as u32 == sys::CUresult::$name as u32);)*
    };
}
same_code! {
    InvalidValue = CUDA_ERROR_INVALID_VALUE,
    OutOfMemory = CUDA_ERROR_OUT_OF_MEMORY,
    NotInitialized = CUDA_ERROR_NOT_INITIALIZED,
    InvalidContext = CUDA_ERROR_INVALID_CONTEXT,
    InvalidHandle = CUDA_ERROR_INVALID_HANDLE,
    NoBinaryForGpu = CUDA_ERROR_NO_BINARY_FOR_GPU,
    NotFound = CUDA_ERROR_NOT_FOUND,
    NotReady = CUDA_ERROR_NOT_READY,
    IllegalAddress = CUDA_ERROR_ILLEGAL_ADDRESS,
    ContextIsDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED,
    HostMemoryAlreadyRegistered = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
    HostMemoryNotRegistered = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
    IllegalState = CUDA_ERROR_ILLEGAL_STATE,
    PeerAccessAlreadyEnabled = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    PeerAccessNotEnabled = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
    StreamCaptureUnsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    StreamCaptureInvalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    StreamCaptureMerge = CUDA_ERROR_STREAM_CAPTURE_MERGE,
    StreamCaptureUnmatched = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
    StreamCaptureUnjoined = CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    StreamCaptureIsolation = CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
    StreamCaptureImplicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    CapturedEvent = CUDA_ERROR_CAPTURED_EVENT,
    StreamCaptureWrongThread = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
    GraphExecUpdateFailure = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
    MisalignedAddress = CUDA_ERROR_MISALIGNED_ADDRESS,
    NotSupported = CUDA_ERROR_NOT_SUPPORTED,
    SystemDriverMismatch = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
}

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// A handle that must not be null, for functions that look at it before anything else.
pub(crate) fn given(handle: usize) -> Result<()> {
    if handle == 0 {
        Err(Error::InvalidHandle)
    } else {
        Ok(())
    }
}

/// The same for functions that call a null handle an invalid argument.
pub(crate) fn nonzero(handle: usize) -> Result<()> {
    given(handle).map_err(|_| Error::InvalidValue)
}

/// The stream with this handle, and its context.
pub(crate) fn stream(handle: usize, default: DefaultStream) -> Result<(Arc<Context>, Arc<Stream>)> {
    let per_thread = match handle {
        0 => default == DefaultStream::PerThread,
        LEGACY => false,
        PER_THREAD => true,
        _ => {
            let known = driver::driver()?.streams.get(handle);
            let stream = known.ok_or(Error::InvalidHandle)?;
            return Ok((stream.context()?, stream));
        }
    };
    let context = driver::current()?;
    let stream = if per_thread {
        driver::thread_stream(&context)?
    } else {
        context.legacy_stream().clone()
    };
    Ok((context, stream))
}
