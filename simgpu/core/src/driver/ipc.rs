//! Legacy IPC: memory of cuMemAlloc in other processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::physical::Physical;
use super::process::Process;
use super::space::Access;
use super::{Context, Driver, lock};
use crate::{Error, Result};

/// Bytes of a CUipcMemHandle.
pub const HANDLE_BYTES: usize = 64;

/// First word of a handle.
const MAGIC: u64 = u64::from_le_bytes(*b"simipcm1");

/// A handle that programs pass on as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    tag: u64,
    /// Where the object starts in what is shared.
    offset: u64,
    size: u64,
    pid: u64,
}

/// What was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    tag: u64,
    offset: u64,
    size: u64,
    gpu: usize,
    pub(crate) context: usize,
    count: usize,
    mapping: (u64, u64),
}

/// All that is open, by the address that the program has.
pub(crate) type Table = BTreeMap<u64, Opened>;

impl Handle {
    fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        let words = [MAGIC, self.tag, self.offset, self.size, self.pid];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Option<Self> {
        let (words, _) = bytes.as_chunks();
        let [magic, tag, offset, size, pid] =
            std::array::from_fn(|at| u64::from_le_bytes(words[at]));
        (magic == MAGIC).then_some(Self {
            tag,
            offset,
            size,
            pid,
        })
    }
}

impl Driver {
    /// cuIpcGetMemHandle of an object of cuMemAlloc; nothing else can be had so.
    pub fn ipc_handle(&self, address: u64) -> Result<[u8; HANDLE_BYTES]> {
        if self.is_managed(address) {
            return Err(Error::InvalidValue);
        }
        let owner = self
            .contexts
            .find(|context| context.allocation(address).is_some());
        let (start, size) = owner
            .and_then(|context| context.allocation(address))
            .ok_or(Error::InvalidValue)?;
        let mapping = self.process.space().mapping(start);
        let (base, _, physical) = mapping.ok_or(Error::InvalidValue)?;
        let handle = Handle {
            tag: physical.tag()?,
            offset: start - base,
            size,
            pid: std::process::id().into(),
        };
        Ok(handle.to_bytes())
    }

    /// cuIpcOpenMemHandle for the GPU of `context`; what is open there already
    /// is counted once more.
    pub fn open_ipc(&self, context: &Arc<Context>, bytes: &[u8; HANDLE_BYTES]) -> Result<u64> {
        let handle = Handle::from_bytes(bytes).ok_or(Error::InvalidValue)?;
        // The driver does not open what its own process made.
        if handle.pid == u64::from(std::process::id()) {
            return Err(Error::InvalidContext);
        }
        let gpu = context.gpu();
        let mut opened = lock(&self.process.ipc);
        let known = opened.iter_mut().find(|(_, known)| {
            (known.tag, known.offset, known.gpu) == (handle.tag, handle.offset, gpu)
        });
        if let Some((address, known)) = known {
            known.count += 1;
            return Ok(*address);
        }
        let physical = Physical::open(&self.process, handle.tag)?;
        let len = physical.size();
        if handle.size > len || handle.offset > len - handle.size {
            return Err(Error::InvalidValue);
        }
        let base = {
            let mut space = self.process.space_mut();
            let base = space.reserve(len, 0, 0)?;
            space.map(base, len, &physical)?;
            space.set_access(base, len, gpu, Access::ReadWrite)?;
            base
        };
        let address = base + handle.offset;
        opened.insert(
            address,
            Opened {
                tag: handle.tag,
                offset: handle.offset,
                size: handle.size,
                gpu,
                context: context.handle(),
                count: 1,
                mapping: (base, len),
            },
        );
        Ok(address)
    }

    /// cuIpcCloseMemHandle; the last one unmaps.
    pub fn close_ipc(&self, address: u64) -> Result<()> {
        let mut opened = lock(&self.process.ipc);
        let known = opened.get_mut(&address).ok_or(Error::InvalidValue)?;
        known.count -= 1;
        if known.count > 0 {
            return Ok(());
        }
        let (base, len) = known.mapping;
        opened.remove(&address);
        drop(opened);
        super::heap::unmap(&self.process, base, len)
    }
}

impl Process {
    /// The opened object around an address: start, size, context.
    pub(crate) fn opened(&self, address: u64) -> Option<(u64, u64, usize)> {
        let opened = lock(&self.ipc);
        let (start, object) = opened.range(..=address).next_back()?;
        (address - start < object.size).then_some((*start, object.size, object.context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_read_back_and_garbage_does_not() {
        let handle = Handle {
            tag: u64::MAX,
            offset: 1,
            size: 2,
            pid: 3,
        };
        assert_eq!(Handle::from_bytes(&handle.to_bytes()), Some(handle));
        assert_eq!(Handle::from_bytes(&[7; HANDLE_BYTES]), None);
    }
}
