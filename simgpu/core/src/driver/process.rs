//! What all contexts of the process share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use super::capture::Captures;
use super::graph::GraphMemories;
use super::host::HostTable;
use super::ipc;
use super::physical::Physical;
use super::pool::Pools;
use super::space::Space;
use crate::config::GRANULE;
use crate::machine::{Counters, Identity, Machine};

/// The process's place in the machine and its address space.
pub(crate) struct Process {
    pub(crate) machine: Arc<Machine>,
    pub(crate) identity: Identity,
    space: RwLock<Space>,
    host: RwLock<HostTable>,
    pub(crate) pools: Pools,
    pub(crate) graph_memories: GraphMemories,
    pub(crate) captures: Captures,
    /// Memory of other processes that this one opened.
    pub(super) ipc: Mutex<ipc::Table>,
    /// Where objects start whose copies are to be synchronous, with what is behind them: an
    /// address is used again.
    pub(super) sync_memops: Mutex<BTreeMap<u64, Weak<Physical>>>,
    /// Handles that the program holds of physical allocations, each with how
    /// often it is retained.
    pub(super) handles: Mutex<HashMap<u64, (Arc<Physical>, usize)>>,
}

impl Process {
    pub(crate) fn new(machine: Machine, identity: Identity) -> Self {
        let gpus = machine.config().gpus.len();
        let (pools, graph_memories) = (Pools::new(gpus), GraphMemories::new(gpus));
        Self {
            machine: Arc::new(machine),
            identity,
            space: RwLock::default(),
            host: RwLock::default(),
            pools,
            graph_memories,
            captures: Captures::default(),
            ipc: Mutex::default(),
            sync_memops: Mutex::default(),
            handles: Mutex::default(),
        }
    }

    pub(crate) fn counters(&self, gpu: usize) -> &Counters {
        self.machine.counters(gpu, self.identity.slot)
    }

    pub(crate) fn space(&self) -> RwLockReadGuard<'_, Space> {
        self.space.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn space_mut(&self) -> RwLockWriteGuard<'_, Space> {
        self.space.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn host(&self) -> RwLockReadGuard<'_, HostTable> {
        self.host.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn host_mut(&self) -> RwLockWriteGuard<'_, HostTable> {
        self.host.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory_info(&self, gpu: usize) -> (u64, u64) {
        let free = self.machine.free_granules(gpu) as u64 * GRANULE;
        (free, self.machine.gpu(gpu).memory.0)
    }
}
