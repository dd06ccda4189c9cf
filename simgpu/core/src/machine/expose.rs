//! Device memory that the host reaches too.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::Machine;
use super::open::open_machine;
use crate::config::GRANULE;

impl Machine {
    /// Maps granules one after another at an address that was reserved for
    /// them, in place of the reservation.
    pub(crate) fn expose(&self, gpu: usize, granules: &[u32], address: u64) -> io::Result<()> {
        let file = open_machine(&self.dir, self.file)?;
        let mut at = address;
        for index in granules {
            let offset = self.parts(gpu).memory + *index as usize * GRANULE as usize;
            // SAFETY: the granules are the caller's, and so is the reserved
            // address range that they replace; the file has them at this offset.
            let mapped = unsafe {
                libc::mmap(
                    ptr::with_exposed_provenance_mut(at as usize),
                    GRANULE as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    file.as_raw_fd(),
                    offset.cast_signed() as libc::off_t,
                )
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            at += GRANULE;
        }
        Ok(())
    }
}

/// Puts an inaccessible reservation back where granules were exposed.
pub(crate) fn hide(address: u64, len: u64) {
    // SAFETY: the range is the caller's; whoever still uses it faults, as
    // after any other free.
    unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(address as usize),
            len as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
}
