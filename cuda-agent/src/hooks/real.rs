//! The libraries' own functions.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
#[cfg(debug_assertions)]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicPtr, Ordering};

use rtswap_agent_core::driver::{Driver, Libcuda};
use rtswap_agent_core::elf::loader;
use rtswap_agent_core::log::debug;

/// A library that hooks stand before.
pub(crate) struct Library {
    name: &'static CStr,
    handle: AtomicPtr<c_void>,
}

/// The driver.
pub(crate) static CUDA: Library = Library::new(c"libcuda.so.1");

/// NVIDIA's management library.
pub(crate) static NVML: Library = Library::new(c"libnvidia-ml.so.1");

/// The address of a library's function, looked up at the first need.
pub(crate) struct Real {
    library: &'static Library,
    address: AtomicPtr<c_void>,
    /// Whether its hook ran.
    #[cfg(debug_assertions)]
    pub(super) ran: AtomicBool,
}

/// Stands for a function that this library does not have: no function has this address.
const ABSENT: *mut c_void = core::ptr::without_provenance_mut(1);

impl Real {
    pub(crate) const fn new(library: &'static Library) -> Self {
        Self {
            library,
            address: AtomicPtr::new(null_mut()),
            #[cfg(debug_assertions)]
            ran: AtomicBool::new(false),
        }
    }

    /// The function, or null where its library is not loaded or lacks it.
    #[inline]
    pub(crate) fn get(&self, name: &CStr) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known > ABSENT {
            return known;
        }
        if known == ABSENT {
            return null_mut();
        }
        self.look_up(name)
    }

    /// The function, if it was looked up and its library has it.
    pub(crate) fn known(&self) -> Option<*mut c_void> {
        Some(self.address.load(Ordering::Relaxed)).filter(|known| *known > ABSENT)
    }

    #[cold]
    fn look_up(&self, name: &CStr) -> *mut c_void {
        let Some(found) = self.library.find(name) else {
            return null_mut();
        };
        let kept = if found.is_null() { ABSENT } else { found };
        self.address.store(kept, Ordering::Relaxed);
        found
    }

    /// Learns the address from the driver itself, where it exports none.
    pub(crate) fn learn(&self, address: *mut c_void) {
        self.address.store(address, Ordering::Relaxed);
    }
}

impl Library {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            handle: AtomicPtr::new(null_mut()),
        }
    }

    /// The library's symbol; nothing before the library is loaded.
    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        let mut handle = self.handle.load(Ordering::Relaxed);
        if handle.is_null() {
            // SAFETY: only looks whether it is loaded. The handle is kept, so that it stays.
            handle =
                unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            self.handle.store(handle, Ordering::Relaxed);
        }
        if handle.is_null() {
            return None;
        }
        // SAFETY: the loader's own function, a live handle, a C string.
        Some(unsafe { (loader()?.dlsym)(handle, name.as_ptr()) })
    }
}

/// Starts the agent of this process, once, now that the driver is loaded.
pub(super) fn start() {
    rtswap_agent_core::agent::start_once(|| {
        // SAFETY: `find` gives the driver's own functions.
        let table = unsafe { Libcuda::load(|name| CUDA.find(name).unwrap_or(null_mut())) };
        match table {
            Ok(table) => Some(Box::leak(Box::new(table)) as &'static dyn Driver),
            Err(missing) => {
                debug(format_args!(
                    "the driver lacks {}",
                    missing.to_string_lossy()
                ));
                None
            }
        }
    });
}
