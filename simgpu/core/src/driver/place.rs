//! Where physical memory lies: on a GPU, or in the host, whose granules here are this process's alone. No GPU's meter and
//! no counter knows those.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};
use std::{io, ptr};

use super::lock;
use super::space::Access;
use crate::config::GRANULE;
use crate::{Error, Result};

/// Where memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the GPU of this ordinal.
    Gpu(usize),
    /// In the host: CUmemLocationType and the number of the node, as they were asked for.
    Host(u32, i32),
}

impl Place {
    /// The GPU's ordinal.
    pub fn gpu(self) -> Option<usize> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Host(..) => None,
        }
    }
}

/// The most that a process has of the host, in granules: address space, of which only what is used takes memory.
const MOST: u32 = 1 << 14;

/// The host's granules of this process, in a file without a name.
#[derive(Debug)]
pub(super) struct HostGranules {
    file: OwnedFd,
    base: usize,
    free: Mutex<Vec<u32>>,
}

impl HostGranules {
    /// Those of this process.
    pub(super) fn get() -> Result<&'static Self> {
        static GRANULES: OnceLock<Option<HostGranules>> = OnceLock::new();
        let granules = GRANULES.get_or_init(|| Self::new().ok());
        granules.as_ref().ok_or(Error::OperatingSystem)
    }

    fn new() -> io::Result<Self> {
        let size = MOST as usize * GRANULE as usize;
        // SAFETY: a literal that ends with 0.
        let file = unsafe { libc::memfd_create(c"simgpu-host".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: made just now, and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: the file's own descriptor.
        if unsafe { libc::ftruncate(file.as_raw_fd(), size.cast_signed() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = map(0, size, &file, 0, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Self {
            file,
            base,
            free: Mutex::new((0..MOST).rev().collect()),
        })
    }

    /// Takes `count` granules, whose bytes are 0, or none.
    pub(super) fn take(&self, count: usize) -> Option<Box<[u32]>> {
        let mut free = lock(&self.free);
        let rest = free.len().checked_sub(count)?;
        Some(free.split_off(rest).into_iter().rev().collect())
    }

    /// Gives granules back.
    pub(super) fn give(&self, granules: &[u32]) {
        for &index in granules {
            let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let (at, len) = (
                offset(index).cast_signed() as libc::off_t,
                GRANULE.cast_signed(),
            );
            // SAFETY: the file's own descriptor; the granule is nobody's any more. It cannot fail for a file in memory.
            unsafe { libc::fallocate(self.file.as_raw_fd(), hole, at, len) };
        }
        lock(&self.free).extend(granules.iter().rev());
    }

    /// Where a granule's bytes are.
    pub(super) fn granule(&self, index: u32) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.base + offset(index))
    }

    /// Lets the program reach granules at a reserved address.
    pub(super) fn expose(&self, granules: &[u32], address: u64, access: Access) -> Result<()> {
        let rights = match access {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        for (&index, at) in granules.iter().zip((address..).step_by(GRANULE as usize)) {
            map(
                at as usize,
                GRANULE as usize,
                &self.file,
                offset(index),
                rights,
            )
            .map_err(|_| Error::OperatingSystem)?;
        }
        Ok(())
    }
}

fn offset(index: u32) -> usize {
    index as usize * GRANULE as usize
}

/// Maps a part of the file: anywhere, or over the reserved range at an address.
fn map(
    at: usize,
    len: usize,
    file: &OwnedFd,
    offset: usize,
    rights: libc::c_int,
) -> io::Result<usize> {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED };
    // SAFETY: a new mapping, or one over addresses that the space has reserved for the caller.
    let mapped = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(at),
            len,
            rights,
            libc::MAP_SHARED | libc::MAP_NORESERVE | fixed,
            file.as_raw_fd(),
            offset.cast_signed() as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(mapped.expose_provenance())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_come_back_empty() {
        let host = HostGranules::get().unwrap();
        let taken = host.take(3).unwrap();
        assert!(host.take(MOST as usize).is_none(), "more than there are");
        for &index in &taken {
            // SAFETY: taken just now.
            unsafe { host.granule(index).write(7) };
        }
        host.give(&taken);
        let again = host.take(3).unwrap();
        for &index in &again {
            // SAFETY: likewise.
            assert_eq!(unsafe { host.granule(index).read() }, 0);
        }
        host.give(&again);
    }
}
