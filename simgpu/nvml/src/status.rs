//! The results of calls, with the library's own codes and texts.

use std::ffi::{CStr, c_uint};

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::machine::MachineError;

/// What a call comes to.
pub(crate) type Result<T, E = Status> = core::result::Result<T, E>;

/// A failed call; the discriminant is the `nvmlReturn_t` code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    Uninitialized = sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED,
    InvalidArgument = sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT,
    NotSupported = sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
    NoPermission = sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION,
    NotFound = sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND,
    InsufficientSize = sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE,
    DriverNotLoaded = sys::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED,
    GpuIsLost = sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST,
    VersionMismatch = sys::nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ArgumentVersionMismatch = sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    Unknown = sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN,
}

impl From<&MachineError> for Status {
    fn from(error: &MachineError) -> Self {
        match error {
            MachineError::Layout { .. } | MachineError::Mismatch { .. } => Self::VersionMismatch,
            MachineError::Foreign { .. } => Self::NoPermission,
            MachineError::System { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::NoPermission
            }
            _ => Self::DriverNotLoaded,
        }
    }
}

/// The texts of the codes from 0.
const TEXTS: [&CStr; 31] = [
    c"Success",
    c"Uninitialized",
    c"Invalid Argument",
    c"Not Supported",
    c"Insufficient Permissions",
    c"Already Initialized",
    c"Not Found",
    c"Insufficient Size",
    c"Insufficient External Power",
    c"Driver Not Loaded",
    c"Timeout",
    c"Interrupt Request Issue",
    c"NVML Shared Library Not Found",
    c"Function Not Found",
    c"Corrupted infoROM",
    c"GPU is lost",
    c"GPU requires reset",
    c"The operating system has blocked the request.",
    c"Driver/library version mismatch",
    c"GPU is currently in use",
    c"Insufficient Memory",
    c"No data",
    c"ECC is not supported on this vGPU",
    c"Insufficient resources",
    c"Frequency not supported",
    c"Argument version mismatch",
    c"Deprecated",
    c"Not ready",
    c"GPU not found",
    c"Invalid state",
    c"Reset type not supported",
];

/// What nvmlErrorString says of a code.
pub(crate) fn text(code: c_uint) -> &'static CStr {
    TEXTS
        .get(code as usize)
        .copied()
        .unwrap_or(c"Unknown Error")
}
