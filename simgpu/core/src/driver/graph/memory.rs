//! What allocation nodes give: an address from the start, memory from the
//! first launch until it is trimmed or its last graph is gone.

use std::sync::{Arc, Mutex};

use crate::config::GRANULE;
use crate::driver::fence::Fence;
use crate::driver::lock;
use crate::driver::physical::{Physical, Purpose, Wishes};
use crate::driver::process::Process;
use crate::driver::space::Access;
use crate::{Error, Result};

/// CUgraphMem_attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphMemoryAttribute {
    /// Bytes that launched graphs have allocated and nobody has freed.
    Used,
    /// The most ever since it was set to 0.
    UsedHigh,
    /// Bytes mapped for graphs.
    Reserved,
    /// The most ever since it was set to 0.
    ReservedHigh,
}

/// The memory of one allocation node.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    pub(crate) address: u64,
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// The same in whole granules.
    size: u64,
    gpu: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mapped: bool,
    /// Launched, and not freed since.
    live: bool,
    /// The end of the last work that may use it.
    last: Option<Arc<Fence>>,
}

/// All such memory of the process.
#[derive(Debug)]
pub(crate) struct GraphMemories {
    all: Mutex<Vec<Arc<GraphMemory>>>,
    /// High-water marks by GPU: used and reserved.
    highs: Mutex<Vec<(u64, u64)>>,
}

impl GraphMemory {
    /// For a launch: fails if what an earlier one gave was not freed.
    pub(super) fn launch(&self, process: &Process, frees_itself: bool) -> Result<()> {
        let mut state = lock(&self.state);
        if state.live && !frees_itself {
            return Err(Error::InvalidValue);
        }
        self.map(&mut state, process)?;
        state.live = true;
        drop(state);
        process.graph_memories.note(self.gpu);
        Ok(())
    }

    /// Puts memory behind the address, ahead of a launch.
    pub(super) fn upload(&self, process: &Process) -> Result<()> {
        self.map(&mut lock(&self.state), process)
    }

    fn map(&self, state: &mut State, process: &Process) -> Result<()> {
        if !state.mapped {
            let wishes = Wishes::default();
            let physical = Physical::new(process, self.gpu, self.size, Purpose::Data, wishes)?;
            let mut space = process.space_mut();
            space.map(self.address, self.size, &physical)?;
            space.set_access(self.address, self.size, self.gpu, Access::ReadWrite)?;
            state.mapped = true;
        }
        Ok(())
    }

    /// Freed, by a node or the program; `last` is when that takes effect.
    pub(crate) fn free(&self, last: Option<Arc<Fence>>) -> Result<()> {
        let mut state = lock(&self.state);
        if !state.live {
            return Err(Error::InvalidValue);
        }
        state.live = false;
        state.last = last;
        Ok(())
    }

    fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        let ended = |fence: &Arc<Fence>| fence.end_ns().is_some();
        !state.live && state.last.as_ref().is_none_or(ended)
    }

    fn unmap(&self, process: &Process) {
        let mut state = lock(&self.state);
        if state.mapped {
            // Mapped whole by `map`, so this cannot fail.
            let unmapped = process.space_mut().unmap(self.address, self.size);
            drop(unmapped);
            state.mapped = false;
        }
    }
}

impl GraphMemories {
    pub(crate) fn new(gpus: usize) -> Self {
        Self {
            all: Mutex::default(),
            highs: Mutex::new(vec![(0, 0); gpus]),
        }
    }

    /// An address for an allocation node.
    pub(crate) fn make(
        &self,
        process: &Process,
        gpu: usize,
        bytes: u64,
    ) -> Result<Arc<GraphMemory>> {
        if bytes == 0 {
            return Err(Error::InvalidValue);
        }
        let size = bytes
            .checked_next_multiple_of(GRANULE)
            .ok_or(Error::OutOfMemory)?;
        let memory = Arc::new(GraphMemory {
            address: process.space_mut().reserve(size, 0, 0)?,
            bytes,
            size,
            gpu,
            state: Mutex::default(),
        });
        lock(&self.all).push(memory.clone());
        Ok(memory)
    }

    /// The memory that starts at an address.
    pub(crate) fn at(&self, address: u64) -> Option<Arc<GraphMemory>> {
        let all = lock(&self.all);
        all.iter().find(|memory| memory.address == address).cloned()
    }

    /// The memory around an address: start and size asked for.
    pub(crate) fn object(&self, address: u64) -> Option<(u64, u64, usize)> {
        let all = lock(&self.all);
        let around = |memory: &&Arc<GraphMemory>| {
            address >= memory.address && address - memory.address < memory.bytes
        };
        let memory = all.iter().find(around)?;
        Some((memory.address, memory.bytes, memory.gpu))
    }

    /// cuDeviceGraphMemTrim: what no launched graph uses goes back.
    pub(crate) fn trim(&self, process: &Process, gpu: usize) {
        for memory in lock(&self.all).iter().filter(|memory| memory.gpu == gpu) {
            if memory.is_idle() {
                memory.unmap(process);
            }
        }
    }

    /// Gives up what belongs to no graph any more and is not in use.
    pub(crate) fn prune(&self, process: &Process) {
        lock(&self.all).retain(|memory| {
            let keep = Arc::strong_count(memory) > 1 || !memory.is_idle();
            if !keep {
                memory.unmap(process);
                let _ = process.space_mut().unreserve(memory.address, memory.size);
            }
            keep
        });
    }

    fn sums(&self, gpu: usize) -> (u64, u64) {
        let all = lock(&self.all);
        let here = all.iter().filter(|memory| memory.gpu == gpu);
        here.fold((0, 0), |(used, reserved), memory| {
            let state = lock(&memory.state);
            let if_so = |is| if is { memory.size } else { 0 };
            (used + if_so(state.live), reserved + if_so(state.mapped))
        })
    }

    fn note(&self, gpu: usize) {
        let (used, reserved) = self.sums(gpu);
        let high = &mut lock(&self.highs)[gpu];
        *high = (high.0.max(used), high.1.max(reserved));
    }

    /// cuDeviceGetGraphMemAttribute.
    pub(crate) fn attribute(&self, gpu: usize, attribute: GraphMemoryAttribute) -> u64 {
        let high = lock(&self.highs)[gpu];
        match attribute {
            GraphMemoryAttribute::Used => self.sums(gpu).0,
            GraphMemoryAttribute::UsedHigh => high.0,
            GraphMemoryAttribute::Reserved => self.sums(gpu).1,
            GraphMemoryAttribute::ReservedHigh => high.1,
        }
    }

    /// cuDeviceSetGraphMemAttribute: high-water marks can be set to 0.
    pub(crate) fn reset(&self, gpu: usize, attribute: GraphMemoryAttribute) -> Result<()> {
        let (used, reserved) = self.sums(gpu);
        let high = &mut lock(&self.highs)[gpu];
        match attribute {
            GraphMemoryAttribute::UsedHigh => high.0 = used,
            GraphMemoryAttribute::ReservedHigh => high.1 = reserved,
            _ => return Err(Error::InvalidValue),
        }
        Ok(())
    }
}
