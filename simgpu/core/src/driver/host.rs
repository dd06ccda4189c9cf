//! Host memory that the driver allocated or registered: pinned, and so
//! reachable for kernels and for copies that do not block.

use std::collections::BTreeMap;
use std::{io, ptr};

use crate::{Error, Result};

/// How host memory came to be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// cuMemHostAlloc.
    Allocated,
    /// cuMemHostRegister.
    Registered,
}

/// A pinned range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostRange {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) flags: u32,
    /// Handle of the context that was current.
    pub(crate) context: usize,
    kind: HostKind,
}

/// All pinned ranges by their start.
#[derive(Debug, Default)]
pub(crate) struct HostTable {
    ranges: BTreeMap<usize, HostRange>,
}

impl HostTable {
    /// Allocates pinned memory, every page in place.
    pub(crate) fn alloc(&mut self, len: usize, flags: u32, context: usize) -> Result<usize> {
        if len == 0 {
            return Err(Error::InvalidValue);
        }
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::OutOfMemory);
        }
        let start = start.expose_provenance();
        let kind = HostKind::Allocated;
        self.ranges.insert(
            start,
            HostRange {
                start,
                len,
                flags,
                context,
                kind,
            },
        );
        Ok(start)
    }

    /// Pins memory of the program's.
    pub(crate) fn register(
        &mut self,
        start: usize,
        len: usize,
        flags: u32,
        context: usize,
    ) -> Result<()> {
        let end = start.checked_add(len).filter(|_| start != 0 && len != 0);
        let end = end.ok_or(Error::InvalidValue)?;
        let last = self.ranges.range(..end).next_back();
        if last.is_some_and(|(_, range)| range.start + range.len > start) {
            return Err(Error::HostMemoryAlreadyRegistered);
        }
        let page = rustix::param::page_size();
        let (from, to) = (start & !(page - 1), end.next_multiple_of(page));
        // SAFETY: only asks for the pages to be there; memory that is not the
        // program's or not writable is refused or left alone.
        let faulted = unsafe {
            libc::madvise(
                ptr::with_exposed_provenance_mut(from),
                to - from,
                libc::MADV_POPULATE_WRITE,
            )
        };
        // Anything but unmapped memory (read-only, an old kernel) can be copied from.
        if faulted != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) {
            return Err(Error::InvalidValue);
        }
        let kind = HostKind::Registered;
        self.ranges.insert(
            start,
            HostRange {
                start,
                len,
                flags,
                context,
                kind,
            },
        );
        Ok(())
    }

    /// Undoes [`HostTable::alloc`] or [`HostTable::register`] by exact start.
    pub(crate) fn remove(&mut self, start: usize, kind: HostKind) -> Result<()> {
        let found = self.ranges.get(&start).filter(|range| range.kind == kind);
        let range = *found.ok_or(match kind {
            HostKind::Allocated => Error::InvalidValue,
            HostKind::Registered => Error::HostMemoryNotRegistered,
        })?;
        self.ranges.remove(&start);
        if kind == HostKind::Allocated {
            // SAFETY: mapped by `alloc`; the program says that it is done with it.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), range.len) };
        }
        Ok(())
    }

    /// The pinned range around an address.
    pub(crate) fn range(&self, address: usize) -> Option<HostRange> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        (address - range.start < range.len).then_some(*range)
    }

    /// Whether all of a range is pinned.
    pub(crate) fn is_pinned(&self, address: usize, len: usize) -> bool {
        let range = self.range(address);
        range.is_some_and(|range| address - range.start + len <= range.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_registration_is_refused() {
        let bytes = vec![0_u8; 10_000];
        let start = bytes.as_ptr().expose_provenance();
        let mut host = HostTable::default();
        host.register(start, 5000, 0, 0).unwrap();
        assert_eq!(
            host.register(start + 4999, 2, 0, 0),
            Err(Error::HostMemoryAlreadyRegistered)
        );
        assert_eq!(
            host.register(start - 1, 2, 0, 0),
            Err(Error::HostMemoryAlreadyRegistered)
        );
        host.register(start + 5000, 5000, 0, 0).unwrap();
        assert!(host.is_pinned(start + 10, 4990) && !host.is_pinned(start + 10, 4991));
        assert_eq!(
            host.remove(start + 1, HostKind::Registered),
            Err(Error::HostMemoryNotRegistered)
        );
        assert_eq!(
            host.remove(start, HostKind::Allocated),
            Err(Error::InvalidValue)
        );
        host.remove(start, HostKind::Registered).unwrap();
        assert!(host.range(start).is_none());
    }

    #[test]
    fn memory_that_is_not_there_cannot_be_registered() {
        assert_eq!(
            HostTable::default().register(4096, 4096, 0, 0),
            Err(Error::InvalidValue)
        );
    }
}
