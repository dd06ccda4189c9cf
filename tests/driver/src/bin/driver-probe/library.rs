//! A library that was loaded by its path.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::io::Write as _;
use std::mem::MaybeUninit;

use anyhow::{Result, ensure};

type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_uint;

/// A loaded driver library. It stays loaded until the process ends.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Loads it. An error has the loader's text.
    pub(crate) fn open(path: &str) -> Result<Self> {
        let name = CString::new(path)?;
        // SAFETY: a C string; the library's constructors run as in any program that uses it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!handle.is_null(), "cannot load {path}: {}", last_error());
        Ok(Self(handle))
    }

    /// The address of an export, or null.
    pub(crate) fn address(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a library that stays loaded, and a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    /// What cuDriverGetVersion says.
    pub(crate) fn version(&self) -> Result<c_int> {
        let function = self.address(c"cuDriverGetVersion");
        ensure!(
            !function.is_null(),
            "the library exports no cuDriverGetVersion"
        );
        let mut version = 0;
        // SAFETY: the driver's function of this name has this signature, and a place for the number.
        let code =
            unsafe { std::mem::transmute::<*mut c_void, GetVersion>(function)(&raw mut version) };
        ensure!(code == 0, "cuDriverGetVersion returned {code}");
        Ok(version)
    }

    /// The first of `names` at each address.
    pub(crate) fn names_by_address<'a>(&self, names: &'a [CString]) -> HashMap<usize, &'a CStr> {
        let mut found = HashMap::new();
        for name in names {
            let address = self.address(name);
            if !address.is_null() {
                found.entry(address.addr()).or_insert(name.as_c_str());
            }
        }
        found
    }

    /// Prints those of `names` whose address lies in another file than the library's: what stands before the driver.
    pub(crate) fn print_replaced(&self, names: &[CString]) -> Result<()> {
        let own = Self::file_of(self.address(c"cuDriverGetVersion"));
        let mut out = std::io::stdout().lock();
        for name in names {
            let address = self.address(name);
            if !address.is_null() && Self::file_of(address) != own {
                writeln!(out, "{}", name.to_string_lossy())?;
            }
        }
        Ok(())
    }

    /// Where the file that holds `address` is mapped.
    fn file_of(address: *mut c_void) -> usize {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: fills what it finds; any address may be asked for, and zeroes are a valid Dl_info.
        let found = unsafe {
            libc::dladdr(address, found.as_mut_ptr());
            found.assume_init()
        };
        found.dli_fbase.addr()
    }
}

fn last_error() -> String {
    // SAFETY: the text is the loader's own and is copied before the next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: not null, a C string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
