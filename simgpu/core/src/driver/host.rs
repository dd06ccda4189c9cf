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

/// New host memory with every page in place. Takes its time: no lock may be held.
pub(crate) fn allocate(len: usize) -> Result<usize> {
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
        Err(Error::OutOfMemory)
    } else {
        Ok(start.expose_provenance())
    }
}

/// Puts every page of a program's memory in place. Takes its time: no lock may
/// be held.
pub(crate) fn fault_in(start: usize, len: usize) -> Result<()> {
    let end = start.checked_add(len).filter(|_| start != 0 && len != 0);
    let end = end.ok_or(Error::InvalidValue)?;
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
    let missing = faulted != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM);
    if missing {
        Err(Error::InvalidValue)
    } else {
        Ok(())
    }
}

impl HostTable {
    /// Notes memory that is in place and overlaps no other that is pinned.
    pub(crate) fn insert(
        &mut self,
        kind: HostKind,
        start: usize,
        len: usize,
        flags: u32,
        context: usize,
    ) -> Result<()> {
        let last = self.ranges.range(..start + len).next_back();
        if last.is_some_and(|(_, range)| range.start + range.len > start) {
            return Err(Error::HostMemoryAlreadyRegistered);
        }
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

    /// Undoes [`HostTable::insert`] by exact start; what was allocated is unmapped.
    pub(crate) fn remove(&mut self, start: usize, kind: HostKind) -> Result<()> {
        let found = self.ranges.get(&start).filter(|range| range.kind == kind);
        let range = *found.ok_or(match kind {
            HostKind::Allocated => Error::InvalidValue,
            HostKind::Registered => Error::HostMemoryNotRegistered,
        })?;
        self.ranges.remove(&start);
        if kind == HostKind::Allocated {
            // SAFETY: mapped by `allocate`; the program says that it is done with it.
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
        let mut host = HostTable::default();
        let mut register = |start, len| host.insert(HostKind::Registered, start, len, 0, 0);
        register(0x1000, 5000).unwrap();
        let refused = Err(Error::HostMemoryAlreadyRegistered);
        assert_eq!(register(0x1000 + 4999, 2), refused);
        assert_eq!(register(0x1000 - 1, 2), refused);
        register(0x1000 + 5000, 5000).unwrap();
        assert!(host.is_pinned(0x1000 + 10, 4990) && !host.is_pinned(0x1000 + 10, 4991));
        let unknown = host.remove(0x1001, HostKind::Registered);
        assert_eq!(unknown, Err(Error::HostMemoryNotRegistered));
        assert_eq!(
            host.remove(0x1000, HostKind::Allocated),
            Err(Error::InvalidValue)
        );
        host.remove(0x1000, HostKind::Registered).unwrap();
        assert!(host.range(0x1000).is_none());
    }

    #[test]
    fn memory_that_is_not_there_cannot_be_registered() {
        for (start, len) in [(4096, 4096), (0, 10), (4096, 0), (usize::MAX, 2)] {
            assert_eq!(fault_in(start, len), Err(Error::InvalidValue));
        }
    }
}
