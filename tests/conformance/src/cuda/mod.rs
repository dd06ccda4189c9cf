//! The driver's functions, found by name when they are first called: no toolkit is needed, and a driver that lacks one
//! fails only the cases of that one. Results are plain numbers, because a newer driver has codes that no binding knows.

mod functions;

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

pub use functions::*;

/// A CUresult, whatever its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $code:literal,)*) => {
        impl Status {
            $(#[doc = concat!("CUDA_", stringify!($name))] pub const $name: Self = Self($code);)*
        }
    };
}

statuses! {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    ALREADY_MAPPED = 208,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the driver writes a pointer to a text of its own, which lives as long as it does.
        let known = unsafe { cuGetErrorName(self.0, &raw mut name) } == Self::SUCCESS;
        if known && !name.is_null() {
            // SAFETY: as above; the text ends in NUL.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            f.write_str(
                name.trim_start_matches("CUDA_ERROR_")
                    .trim_start_matches("CUDA_"),
            )
        } else {
            write!(f, "code {}", self.0)
        }
    }
}

/// The driver's library; a panic, which fails the case, where there is none.
fn library() -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let address = *LIBRARY.get_or_init(|| {
        // SAFETY: loading the driver runs its constructors, as in any CUDA program.
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) }.expose_provenance()
    });
    assert!(
        address != 0,
        "libcuda.so.1 cannot be loaded: there is no NVIDIA driver"
    );
    ptr::with_exposed_provenance_mut(address)
}

/// The address that the driver exports under this name; null where it does not.
pub fn exported(name: &str) -> *mut c_void {
    let name = CString::new(name).expect("names hold no NUL");
    // SAFETY: a library that stays loaded and a text that outlives the call.
    unsafe { libc::dlsym(library(), name.as_ptr()) }
}

/// The same, and a panic where there is none.
fn found(name: &str) -> *mut c_void {
    let address = exported(name);
    assert!(!address.is_null(), "this driver has no {name}");
    address
}
