//! Which hooks ran, for the doors suite; in debug builds only. `RTSWAP_HOOKS_RAN` names a file with a slot of zeros for each
//! hook, in which a hook that ran puts its name.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::all;
use super::real::Real;

/// Bytes of a slot.
const SLOT: usize = 64;

/// The mapped file: it works where a sandbox or a limit keeps the program from writing to files.
struct Slots {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: slots are only written, whole names at a time, and equal ones where two threads meet.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

/// Notes that this hook runs.
#[inline]
pub(super) fn note(real: &Real, name: &CStr) {
    if !real.ran.swap(true, Ordering::Relaxed) {
        write(name);
    }
}

#[cold]
fn write(name: &CStr) {
    static SLOTS: OnceLock<Option<Slots>> = OnceLock::new();
    let Some(slots) = SLOTS.get_or_init(open) else {
        return;
    };
    let name = name.to_bytes();
    let place = all().position(|hook| hook.name.to_bytes() == name);
    let Some(start) = place.map(|place| place * SLOT) else {
        return;
    };
    if name.len() < SLOT && start + SLOT <= slots.bytes {
        // SAFETY: within the mapping, which stays.
        let slot = unsafe { slots.at.add(start) };
        // SAFETY: as above.
        unsafe { slot.copy_from_nonoverlapping(name.as_ptr(), name.len()) };
    }
}

fn open() -> Option<Slots> {
    let path = std::env::var_os("RTSWAP_HOOKS_RAN")?;
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let (read, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a mapping of our own of a whole file.
    let at: *mut c_void =
        unsafe { libc::mmap(null_mut(), bytes, read, shared, file.as_raw_fd(), 0) };
    (at != libc::MAP_FAILED).then(|| Slots {
        at: at.cast(),
        bytes,
    })
}
