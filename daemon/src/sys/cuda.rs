//! The few functions of the CUDA driver that name GPUs. None of them makes a context.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The name under which drivers install it.
const LIBRARY: &CStr = c"libcuda.so.1";

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;

type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type GetUuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
type TotalMem = unsafe extern "C" fn(*mut usize, c_int) -> c_int;

/// The device attributes of these meanings, by cuda.h.
const INTEGRATED: c_int = 18;
const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;

/// What CUDA knows of a GPU without a context.
#[derive(Debug)]
pub struct CudaGpu {
    /// Its 16 bytes.
    pub uuid: [u8; 16],
    /// All its memory in bytes.
    pub total: u64,
    /// It shares the host's memory.
    pub is_integrated: bool,
    /// It has virtual memory management.
    pub has_virtual_memory: bool,
}

/// Why the driver cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The library cannot be loaded, because of that.
    #[error("{0}")]
    Library(String),
    /// The library has no function of that name.
    #[error("libcuda.so.1 has no {0}")]
    Missing(&'static str),
    /// The function of that name answered that error.
    #[error("{0} fails: error {1}")]
    Call(&'static str, c_int),
}

/// The driver's library, initialized. It is never unloaded.
#[derive(Debug)]
pub struct Cuda {
    count: GetCount,
    get: Get,
    version: GetVersion,
    attribute: GetAttribute,
    uuid: GetUuid,
    total: TotalMem,
}

impl Cuda {
    /// Loads and initializes it, which may take as long as the driver likes.
    pub fn open() -> Result<Self, CudaError> {
        // SAFETY: the name is terminated by NUL. The library's constructors run, as in each program that uses
        // CUDA: the system's loader finds it.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(CudaError::Library(last_error()));
        }
        let find = |name| symbol(library, name);
        // SAFETY: these are the types that cuda.h declares for the functions of these names.
        let (init, cuda) = unsafe {
            let uuid = find(c"cuDeviceGetUuid_v2").or_else(|_| find(c"cuDeviceGetUuid"))?;
            let init = std::mem::transmute::<*mut c_void, Init>(find(c"cuInit")?);
            let cuda = Self {
                count: std::mem::transmute::<*mut c_void, GetCount>(find(c"cuDeviceGetCount")?),
                get: std::mem::transmute::<*mut c_void, Get>(find(c"cuDeviceGet")?),
                version: std::mem::transmute::<*mut c_void, GetVersion>(find(
                    c"cuDriverGetVersion",
                )?),
                attribute: std::mem::transmute::<*mut c_void, GetAttribute>(find(
                    c"cuDeviceGetAttribute",
                )?),
                uuid: std::mem::transmute::<*mut c_void, GetUuid>(uuid),
                total: std::mem::transmute::<*mut c_void, TotalMem>(find(c"cuDeviceTotalMem_v2")?),
            };
            (init, cuda)
        };
        // SAFETY: cuInit takes a number, which must be 0.
        check("cuInit", unsafe { init(0) })?;
        Ok(cuda)
    }

    /// The number of GPUs.
    pub fn count(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: the function writes one int there.
        check("cuDeviceGetCount", unsafe { (self.count)(&raw mut count) })?;
        Ok(count)
    }

    /// The CUDA version that the driver has, 1000 · major + 10 · minor.
    pub fn version(&self) -> Result<i32, CudaError> {
        let mut version = 0;
        // SAFETY: the function writes one int there.
        check("cuDriverGetVersion", unsafe {
            (self.version)(&raw mut version)
        })?;
        Ok(version)
    }

    /// What is known of the GPU `index`.
    pub fn gpu(&self, index: i32) -> Result<CudaGpu, CudaError> {
        let (mut device, mut uuid, mut total) = (0, [0; 16], 0);
        // SAFETY: each function writes a value of the type that its pointer has.
        unsafe {
            check("cuDeviceGet", (self.get)(&raw mut device, index))?;
            check("cuDeviceGetUuid", (self.uuid)(&raw mut uuid, device))?;
            check("cuDeviceTotalMem", (self.total)(&raw mut total, device))?;
        }
        Ok(CudaGpu {
            uuid,
            total: total as u64,
            is_integrated: self.attribute(INTEGRATED, device)? != 0,
            has_virtual_memory: self.attribute(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)? != 0,
        })
    }

    /// Zero for one that this driver does not know.
    fn attribute(&self, attribute: c_int, device: c_int) -> Result<c_int, CudaError> {
        let mut value = 0;
        // SAFETY: the function writes one int there.
        match unsafe { (self.attribute)(&raw mut value, attribute, device) } {
            INVALID_VALUE => Ok(0),
            result => check("cuDeviceGetAttribute", result).map(|()| value),
        }
    }
}

fn symbol(library: *mut c_void, name: &'static CStr) -> Result<*mut c_void, CudaError> {
    // SAFETY: the handle is open and the name is terminated by NUL.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(CudaError::Missing(name.to_str().unwrap_or_default()));
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a text that is good until this thread's next call of that kind.
    unsafe {
        let text: *const c_char = libc::dlerror();
        if text.is_null() {
            return "libcuda.so.1 cannot be loaded".into();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn check(name: &'static str, result: c_int) -> Result<(), CudaError> {
    if result == SUCCESS {
        return Ok(());
    }
    Err(CudaError::Call(name, result))
}
