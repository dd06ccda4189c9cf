//! Prototypes that cudarc's declarations lack, and how the first forms of functions differ from their later ones.

/// Functions, and their parameters in the words of Rust. From `cydriver.pxd` of NVIDIA's cuda-bindings 13.5 (PyPI), which
/// declares what cudaGL.h, cudaEGL.h, cudaVDPAU.h and the newer cuda.h do; their exported names are those of the headers'
/// `#define`s. GL's, EGL's and VDPAU's numbers have 32 bits, their objects are pointers.
pub(super) const PROTOTYPES: &[(&str, &str)] = &[
    ("cuCheckpointOperationComplete", "handle: *mut c_void"),
    (
        "cuCheckpointProcessCheckpoint",
        "pid: c_int, args: *mut c_void",
    ),
    (
        "cuCheckpointProcessGetRestoreThreadId",
        "pid: c_int, tid: *mut c_int",
    ),
    (
        "cuCheckpointProcessGetState",
        "pid: c_int, state: *mut c_uint",
    ),
    ("cuCheckpointProcessLock", "pid: c_int, args: *mut c_void"),
    (
        "cuCheckpointProcessRestore",
        "pid: c_int, args: *mut c_void",
    ),
    ("cuCheckpointProcessUnlock", "pid: c_int, args: *mut c_void"),
    (
        "cuDeviceGetNvSciSyncAttributes",
        "list: *mut c_void, device: CUdevice, flags: c_int",
    ),
    (
        "cuEGLStreamConsumerAcquireFrame",
        "connection: *mut c_void, resource: *mut CUgraphicsResource, stream: *mut CUstream, timeout: c_uint",
    ),
    (
        "cuEGLStreamConsumerConnect",
        "connection: *mut c_void, stream: *mut c_void",
    ),
    (
        "cuEGLStreamConsumerConnectWithFlags",
        "connection: *mut c_void, stream: *mut c_void, flags: c_uint",
    ),
    ("cuEGLStreamConsumerDisconnect", "connection: *mut c_void"),
    (
        "cuEGLStreamConsumerReleaseFrame",
        "connection: *mut c_void, resource: CUgraphicsResource, stream: *mut CUstream",
    ),
    (
        "cuEGLStreamProducerConnect",
        "connection: *mut c_void, stream: *mut c_void, width: c_int, height: c_int",
    ),
    ("cuEGLStreamProducerDisconnect", "connection: *mut c_void"),
    (
        "cuEGLStreamProducerPresentFrame",
        "connection: *mut c_void, frame: EglFrame, stream: *mut CUstream",
    ),
    (
        "cuEGLStreamProducerReturnFrame",
        "connection: *mut c_void, frame: *mut EglFrame, stream: *mut CUstream",
    ),
    (
        "cuEventCreateFromEGLSync",
        "event: *mut CUevent, sync: *mut c_void, flags: c_uint",
    ),
    (
        "cuFabricCpyBatchAsync",
        "count: usize, list: *mut c_void, flags: c_ulonglong, stream: CUstream",
    ),
    (
        "cuFabricCpyBatchAsync_ptsz",
        "count: usize, list: *mut c_void, flags: c_ulonglong, stream: CUstream",
    ),
    (
        "cuGLCtxCreate",
        "made: *mut CUcontext, flags: c_uint, device: CUdevice",
    ),
    (
        "cuGLCtxCreate_v2",
        "made: *mut CUcontext, flags: c_uint, device: CUdevice",
    ),
    (
        "cuGLGetDevices",
        "found: *mut c_uint, devices: *mut CUdevice, count: c_uint, list: c_uint",
    ),
    (
        "cuGLGetDevices_v2",
        "found: *mut c_uint, devices: *mut CUdevice, count: c_uint, list: c_uint",
    ),
    ("cuGLInit", ""),
    (
        "cuGLMapBufferObjectAsync_v2_ptsz",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint, stream: CUstream",
    ),
    (
        "cuGLMapBufferObject_v2_ptds",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint",
    ),
    (
        "cuGLMapBufferObject",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint",
    ),
    (
        "cuGLMapBufferObject_v2",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint",
    ),
    (
        "cuGLMapBufferObjectAsync",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint, stream: CUstream",
    ),
    (
        "cuGLMapBufferObjectAsync_v2",
        "at: *mut CUdeviceptr, bytes: *mut usize, buffer: c_uint, stream: CUstream",
    ),
    ("cuGLRegisterBufferObject", "buffer: c_uint"),
    (
        "cuGLSetBufferObjectMapFlags",
        "buffer: c_uint, flags: c_uint",
    ),
    ("cuGLUnmapBufferObject", "buffer: c_uint"),
    (
        "cuGLUnmapBufferObjectAsync",
        "buffer: c_uint, stream: CUstream",
    ),
    ("cuGLUnregisterBufferObject", "buffer: c_uint"),
    (
        "cuGraphicsEGLRegisterImage",
        "made: *mut CUgraphicsResource, image: *mut c_void, flags: c_uint",
    ),
    (
        "cuGraphicsGLRegisterBuffer",
        "made: *mut CUgraphicsResource, buffer: c_uint, flags: c_uint",
    ),
    (
        "cuGraphicsGLRegisterImage",
        "made: *mut CUgraphicsResource, image: c_uint, target: c_uint, flags: c_uint",
    ),
    (
        "cuGraphicsResourceGetMappedEglFrame",
        "frame: *mut EglFrame, resource: CUgraphicsResource, index: c_uint, level: c_uint",
    ),
    (
        "cuGraphicsVDPAURegisterOutputSurface",
        "made: *mut CUgraphicsResource, surface: c_uint, flags: c_uint",
    ),
    (
        "cuGraphicsVDPAURegisterVideoSurface",
        "made: *mut CUgraphicsResource, surface: c_uint, flags: c_uint",
    ),
    (
        "cuTensorMapSetAllocationClass",
        "map: *mut c_void, class: c_uint, before: *mut c_uint",
    ),
    (
        "cuVDPAUCtxCreate",
        "made: *mut CUcontext, flags: c_uint, device: CUdevice, vdp: c_uint, look_up: *mut c_void",
    ),
    (
        "cuVDPAUCtxCreate_v2",
        "made: *mut CUcontext, flags: c_uint, device: CUdevice, vdp: c_uint, look_up: *mut c_void",
    ),
    (
        "cuVDPAUGetDevice",
        "device: *mut CUdevice, vdp: c_uint, look_up: *mut c_void",
    ),
    // cuda.h of CUDA 10.0: the mode came with 10.1.
    ("cuStreamBeginCapture", "stream: CUstream"),
    ("cuStreamBeginCapture_ptsz", "stream: CUstream"),
];

/// Types of [`PROTOTYPES`] that cudarc does not declare: a union of three pointers, and nine numbers.
pub(super) const TYPES: &str = "
pub struct EglFrame {
    frame: [*mut c_void; 3],
    numbers: [c_uint; 9],
}
";
