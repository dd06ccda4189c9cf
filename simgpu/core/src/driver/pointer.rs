//! What the driver knows of an address.

use std::sync::Arc;

use super::place::Place;
use super::table::handle_of;
use super::{Context, Driver, lock};
use crate::{Error, Result};

/// The byte of `CUmemAllocationProp::allocFlags` that is `gpuDirectRDMACapable`.
const RDMA_CAPABLE: usize = 1;

/// On which side memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerKind {
    /// Device memory.
    Device,
    /// Pinned host memory.
    Host,
}

impl PointerKind {
    fn of(place: Place) -> Self {
        match place {
            Place::Gpu(_) => Self::Device,
            Place::Host(..) => Self::Host,
        }
    }
}

/// The answers of cuPointerGetAttribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerInfo {
    /// On which side it is.
    pub kind: PointerKind,
    /// Handle of the context it belongs to; 0 for memory from a
    /// pool or mapped by cuMemMap, which belongs to none.
    pub context: usize,
    /// Ordinal of the GPU, 0 for host memory without a context.
    pub gpu: usize,
    /// Start of the allocation, or of the mapping.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Handle of the pool it came from; 0 for all other memory.
    pub pool: usize,
}

impl Driver {
    /// What is at an address; [`Error::InvalidValue`] if the driver does not know it.
    pub fn pointer(&self, address: u64) -> Result<PointerInfo> {
        if let Some(range) = self.process.host().range(address as usize) {
            let gpu = self
                .contexts
                .get(range.context)
                .map_or(0, |context| context.gpu());
            return Ok(PointerInfo {
                kind: PointerKind::Host,
                context: range.context,
                gpu,
                start: range.start as u64,
                size: range.len as u64,
                pool: 0,
            });
        }
        let kind = PointerKind::Device;
        if let Some(context) = self.owner(address) {
            let (start, size) = context.allocation(address).ok_or(Error::InvalidValue)?;
            let (context, gpu) = (context.handle(), context.gpu());
            return Ok(PointerInfo {
                kind,
                context,
                gpu,
                start,
                size,
                pool: 0,
            });
        }
        if let Some(pool) = self.process.pools.owner(address) {
            let (start, size) = pool.object(address).ok_or(Error::InvalidValue)?;
            return Ok(PointerInfo {
                kind: PointerKind::of(pool.place),
                context: 0,
                gpu: pool.place.gpu().unwrap_or(0),
                start,
                size,
                pool: handle_of(&pool),
            });
        }
        if let Some((start, size, gpu)) = self.process.graph_memories.object(address) {
            return Ok(PointerInfo {
                kind,
                context: 0,
                gpu,
                start,
                size,
                pool: 0,
            });
        }
        if let Some((start, size, context)) = self.process.opened(address) {
            let gpu = self
                .contexts
                .get(context)
                .map_or(0, |context| context.gpu());
            return Ok(PointerInfo {
                kind,
                context,
                gpu,
                start,
                size,
                pool: 0,
            });
        }
        let mapping = self.process.space().mapping(address);
        let (start, size, physical) = mapping.ok_or(Error::InvalidValue)?;
        Ok(PointerInfo {
            kind: PointerKind::of(physical.place),
            context: 0,
            gpu: physical.place.gpu().unwrap_or(0),
            start,
            size,
            pool: 0,
        })
    }

    /// Whether an address is in the device address space, mapped or not.
    pub fn is_device_address(&self, address: u64) -> bool {
        self.process.space().contains(address)
    }

    /// The reserved range around an address: start and size.
    pub fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        self.process.space().reservation(address)
    }

    /// Whether cuIpcGetMemHandle gives a handle of what is at an address.
    pub fn has_ipc_handle(&self, address: u64) -> bool {
        self.owner(address).is_some() && !self.is_managed(address)
    }

    /// Has copies of the memory around an address be synchronous, which all of ours are: it is only told again.
    pub fn set_sync_memops(&self, address: u64, on: bool) -> Result<()> {
        let info = self.pointer(address)?;
        let start = info.start;
        let mut marked = lock(&self.process.sync_memops);
        // What is pinned on the host has no mapping, and is not told of.
        let mapping = self.process.space().mapping(start);
        // The driver refuses it for what the program mapped by cuMemMap.
        if mapping.is_some() && (info.context, info.pool) == (0, 0) {
            return Err(Error::NotSupported);
        }
        match mapping.filter(|_| on) {
            Some((_, _, physical)) => marked.insert(start, Arc::downgrade(&physical)),
            None => marked.remove(&start),
        };
        Ok(())
    }

    /// Whether that was asked for, of memory that is still the same.
    pub fn has_sync_memops(&self, address: u64) -> bool {
        let start = self.pointer(address).map(|info| info.start);
        let marked = lock(&self.process.sync_memops);
        let memory = start.ok().and_then(|start| marked.get(&start));
        memory.is_some_and(|memory| memory.strong_count() > 0)
    }

    /// The handle types that the memory at an address was created for.
    pub fn handle_types(&self, address: u64) -> u64 {
        let mapping = self.process.space().mapping(address);
        mapping.map_or(0, |(_, _, physical)| physical.wishes.handle_types.into())
    }

    /// Whether the memory at an address was created to be registered with RDMA devices (`gpuDirectRDMACapable`).
    pub fn is_rdma_capable(&self, address: u64) -> bool {
        let mapping = self.process.space().mapping(address);
        mapping.is_some_and(|(_, _, physical)| physical.wishes.flags[RDMA_CAPABLE] != 0)
    }

    /// The mapping around an address: start, size in bytes, and an id of the physical memory behind it, unique in the
    /// process while that lives.
    pub fn mapping(&self, address: u64) -> Option<(u64, u64, u64)> {
        let (start, size, physical) = self.process.space().mapping(address)?;
        Some((start, size, Arc::as_ptr(&physical) as u64))
    }

    fn owner(&self, address: u64) -> Option<Arc<Context>> {
        self.contexts
            .find(|context| context.allocation(address).is_some())
    }
}
