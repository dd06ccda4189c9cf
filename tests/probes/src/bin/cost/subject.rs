//! Something that is measured: a pair of functions of a library.

use std::ffi::{CString, c_uint, c_void};
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};

/// Pairs of calls of one measurement.
pub(crate) const CALLS: u64 = 500;

type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_uint;
type Free = unsafe extern "C" fn(u64) -> c_uint;

/// An open library; it stays open.
#[derive(Clone, Copy)]
pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.to_string_lossy().as_bytes())?;
        // SAFETY: the initialisers of a driver, or none.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!library.is_null(), "cannot open {name:?}");
        Ok(Self(library))
    }

    fn symbol(self, name: &str) -> Result<*mut c_void> {
        let name = CString::new(name)?;
        // SAFETY: an open library, a name that ends.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        ensure!(!found.is_null(), "no {name:?}");
        Ok(found)
    }
}

/// An allocation and its free, and what they took in each round.
pub(crate) struct Subject {
    alloc: Alloc,
    free: Free,
    ns: Vec<f64>,
}

impl Subject {
    /// Two functions with the types of cuMemAlloc and cuMemFree.
    pub(crate) fn new(library: Library, alloc: &str, free: &str) -> Result<Self> {
        let (alloc, free) = (library.symbol(alloc)?, library.symbol(free)?);
        // SAFETY: the functions of a driver, or our own, with these types.
        let (alloc, free) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Alloc>(alloc),
                std::mem::transmute::<*mut c_void, Free>(free),
            )
        };
        Ok(Self {
            alloc,
            free,
            ns: Vec::new(),
        })
    }

    /// Allocates without a free.
    pub(crate) fn hold(&self) {
        let mut at = 0;
        // SAFETY: a pointer to fill.
        unsafe { (self.alloc)(&raw mut at, 4096) };
    }

    /// One round.
    pub(crate) fn measure(&mut self) {
        let start = cpu_ns();
        for _ in 0..CALLS {
            let mut at = 0;
            // SAFETY: a pointer to fill; what was allocated is freed once, and freeing nothing is allowed.
            unsafe {
                (self.alloc)(&raw mut at, 4096);
                (self.free)(at);
            }
        }
        self.ns.push((cpu_ns() - start) as f64 / CALLS as f64);
    }

    /// The best round, ns.
    pub(crate) fn least(&self) -> f64 {
        self.ns.iter().copied().fold(f64::MAX, f64::min)
    }

    /// The middle round, ns.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

/// CPU time of this thread, ns: other programs' turns are not in it.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec).cast_unsigned()
}
