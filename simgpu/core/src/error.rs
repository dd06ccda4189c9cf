//! The results of driver calls, with the driver's own codes and names.

use std::ffi::CStr;

/// What a driver call comes to.
pub type Result<T, E = Error> = core::result::Result<T, E>;

macro_rules! errors {
    ($($variant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        /// A failed driver call; the discriminant is the `CUresult` code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
        #[repr(u32)]
        #[allow(missing_docs, reason = "each text says it")]
        pub enum Error {
            $(#[error($text)] $variant = $code,)*
        }

        impl Error {
            /// The error with this `CUresult` code.
            pub fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name of the code, as in cuda.h.
            pub fn name(self) -> &'static CStr {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What the code means, as cuGetErrorString tells it.
            pub fn text(self) -> &'static CStr {
                match self {
                    $(Self::$variant => const {
                        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                            Ok(text) => text,
                            Err(_) => panic!("a text holds a NUL"),
                        }
                    },)*
                }
            }
        }
    };
}

errors! {
    InvalidValue = 1, c"CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OutOfMemory = 2, c"CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NotInitialized = 3, c"CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    Deinitialized = 4, c"CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    NoDevice = 100, c"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    InvalidDevice = 101, c"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    InvalidImage = 200, c"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    InvalidContext = 201, c"CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NoBinaryForGpu = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    PeerAccessUnsupported = 217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    InvalidSource = 300, c"CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid";
    FileNotFound = 301, c"CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    OperatingSystem = 304, c"CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    InvalidHandle = 400, c"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    IllegalState = 401, c"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NotFound = 500, c"CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NotReady = 600, c"CUDA_ERROR_NOT_READY", "device not ready";
    IllegalAddress = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    PeerAccessAlreadyEnabled = 704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PeerAccessNotEnabled = 705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    PrimaryContextActive = 708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    ContextIsDestroyed = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    HostMemoryAlreadyRegistered = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    MisalignedAddress = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    CooperativeLaunchTooLarge = 720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NotPermitted = 800, c"CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    SystemNotReady = 802, c"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized";
    SystemDriverMismatch = 803, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination";
    StreamCaptureUnsupported = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    StreamCaptureInvalidated = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    StreamCaptureMerge = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    StreamCaptureUnmatched = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    StreamCaptureUnjoined = 904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    StreamCaptureIsolation = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    StreamCaptureImplicit = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CapturedEvent = 907, c"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    GraphExecUpdateFailure = 910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", "unknown error";
}
