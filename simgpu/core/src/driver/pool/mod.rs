//! Stream-ordered allocation: memory pools, which belong to a GPU and outlive
//! contexts.
//!
//! `ranges` knows what is free and after which work; here is one pool with its
//! attributes, in `set` all pools of the process. Memory is mapped when it is
//! asked for, so its address can be used at once, as the driver promises.

mod ranges;
mod set;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(crate) use ranges::Freed;
pub(crate) use set::Pools;

use super::fence::Fence;
use super::heap::{map_on, unmap};
use super::lock;
use super::place::Place;
use super::process::Process;
use super::space::Access;
use crate::clock::Lasting;
use crate::config::{GRANULE, MAX_GPUS};
use crate::{Error, Result};
use ranges::Ranges;

/// Objects start at multiples of this.
const ALIGN: u64 = 512;

/// CUmemPool_attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolAttribute {
    /// Reuse of what an event orders before; kept, and never made use of.
    FollowEventDependencies,
    /// Reuse of what another stream freed and has ended.
    AllowOpportunistic,
    /// Reuse of what another stream will have freed, by waiting for it.
    AllowInternalDependencies,
    /// Bytes that a pool keeps when the program synchronises.
    ReleaseThreshold,
    /// Bytes mapped now.
    Reserved,
    /// The most ever mapped since it was set to 0.
    ReservedHigh,
    /// Bytes handed out now.
    Used,
    /// The most ever handed out since it was set to 0.
    UsedHigh,
}

/// A memory pool.
#[derive(Debug)]
pub struct Pool {
    /// Where its memory lies.
    pub place: Place,
    /// The most bytes it may map; 0 is no bound.
    max_size: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ranges: Ranges,
    /// Bytes asked for, by address.
    objects: BTreeMap<u64, u64>,
    /// What each GPU may do with the pool's memory.
    access: [Access; MAX_GPUS],
    follow_events: bool,
    opportunistic: bool,
    internal: bool,
    threshold: u64,
    reserved: Level,
    used: Level,
    destroyed: bool,
}

/// A sum and its high-water mark, bytes.
#[derive(Debug, Default)]
struct Level {
    now: u64,
    high: u64,
}

impl Level {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

impl Pool {
    pub(super) fn new(place: Place, max_size: u64) -> Arc<Self> {
        let mut access = [Access::None; MAX_GPUS];
        if let Some(gpu) = place.gpu() {
            access[gpu] = Access::ReadWrite;
        }
        Arc::new(Self {
            place,
            max_size,
            state: Mutex::new(State {
                ranges: Ranges::default(),
                objects: BTreeMap::new(),
                access,
                follow_events: true,
                opportunistic: true,
                internal: true,
                threshold: 0,
                reserved: Level::default(),
                used: Level::default(),
                destroyed: false,
            }),
        })
    }

    /// Allocates in the order of the stream with this id; also what that
    /// stream has to wait for before it uses the memory.
    pub(crate) fn alloc(
        &self,
        process: &Process,
        size: u64,
        stream: u64,
    ) -> Result<(u64, Vec<Arc<Fence>>)> {
        let wanted = checked_multiple(size, ALIGN)?;
        let mut state = lock(&self.state);
        let opportunistic = state.opportunistic;
        let in_order = |freed: &Freed| freed.stream == stream || opportunistic && freed.is_done();
        let ready = |after: &[Freed]| after.iter().all(in_order);
        let mut found = state.ranges.take(wanted, ready);
        if found.is_none() {
            match self.grow(&mut state, process, wanted) {
                Ok(()) => found = state.ranges.take(wanted, ready),
                Err(Error::OutOfMemory) if state.internal => {
                    found = state.ranges.take(wanted, |_| true);
                }
                Err(error) => return Err(error),
            }
        }
        let (address, after) = found.ok_or(Error::OutOfMemory)?;
        state.objects.insert(address, size);
        state.used.add(wanted);
        let waits = after.into_iter().filter(|freed| freed.stream != stream);
        Ok((address, waits.map(|freed| freed.fence).collect()))
    }

    /// Maps a new slab for at least `wanted` bytes.
    fn grow(&self, state: &mut State, process: &Process, wanted: u64) -> Result<()> {
        let size = checked_multiple(wanted, GRANULE)?;
        if self.max_size != 0 && state.reserved.now.saturating_add(size) > self.max_size {
            return Err(Error::OutOfMemory);
        }
        let mut cost = Lasting::us(0.0);
        let address = match map_on(process, self.place, size) {
            Err(Error::OutOfMemory) => {
                // What this pool keeps for later is needed now.
                self.trim_locked(state, process, 0);
                process.pools.trim_others(process, self);
                map_on(process, self.place, size)?
            }
            mapped => mapped?,
        };
        if let Some(gpu) = self.place.gpu() {
            let costs = process.machine.gpu(gpu);
            cost.extend_us(costs.create_us + costs.map_us + costs.access_us);
        }
        for (gpu, access) in state.access.iter().enumerate() {
            if Some(gpu) != self.place.gpu() && *access != Access::None {
                process
                    .space_mut()
                    .set_access(address, size, gpu, *access)?;
            }
        }
        state.ranges.add_slab(address, size);
        state.reserved.add(size);
        Ok(())
    }

    /// Frees an object: in a stream's order, or at once as the program says
    /// that nothing uses it any more.
    pub(crate) fn free(&self, address: u64, freed: Option<Freed>) -> Result<()> {
        let mut state = lock(&self.state);
        let size = state.objects.remove(&address).ok_or(Error::InvalidValue)?;
        let len = size.next_multiple_of(ALIGN);
        state.used.now -= len;
        state.ranges.give(address, len, freed);
        Ok(())
    }

    /// The object around an address: start and size asked for.
    pub(crate) fn object(&self, address: u64) -> Option<(u64, u64)> {
        let state = lock(&self.state);
        let (start, size) = state.objects.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size))
    }

    /// Gives slabs back until at most `keep` bytes are mapped, as far as
    /// nothing uses them.
    pub(crate) fn trim(&self, process: &Process, keep: u64) {
        self.trim_locked(&mut lock(&self.state), process, keep);
    }

    /// As [`Pool::trim`], unless somebody is at the pool just now.
    fn try_trim(&self, process: &Process, keep: u64) {
        if let Ok(mut state) = self.state.try_lock() {
            self.trim_locked(&mut state, process, keep);
        }
    }

    fn trim_locked(&self, state: &mut State, process: &Process, keep: u64) {
        let gpu = self.place.gpu().map(|gpu| process.machine.gpu(gpu));
        while state.reserved.now > keep {
            let Some((start, len)) = state.ranges.remove_idle_slab() else {
                return;
            };
            let _cost = Lasting::us(gpu.map_or(0.0, |costs| costs.unmap_us + costs.release_us));
            state.reserved.now -= len;
            // The slab was mapped whole by `grow`, so this cannot fail.
            let _ = unmap(process, start, len);
        }
    }

    /// The program has synchronised: what is beyond the threshold goes back.
    fn settle(&self, process: &Process) {
        let mut state = lock(&self.state);
        state.ranges.settle();
        let keep = if state.destroyed { 0 } else { state.threshold };
        self.trim_locked(&mut state, process, keep);
    }

    /// cuMemPoolSetAccess.
    pub(crate) fn set_access(&self, process: &Process, gpu: usize, access: Access) -> Result<()> {
        // Its own GPU cannot be shut out.
        if Some(gpu) == self.place.gpu() && access != Access::ReadWrite {
            return Err(Error::InvalidValue);
        }
        let mut state = lock(&self.state);
        state.access[gpu] = access;
        for (start, len) in state.ranges.slabs() {
            process.space_mut().set_access(start, len, gpu, access)?;
        }
        Ok(())
    }

    /// cuMemPoolGetAccess.
    pub fn access(&self, gpu: usize) -> Access {
        lock(&self.state).access[gpu]
    }

    /// cuMemPoolGetAttribute; switches are 0 or 1.
    pub fn attribute(&self, attribute: PoolAttribute) -> u64 {
        let state = lock(&self.state);
        match attribute {
            PoolAttribute::FollowEventDependencies => state.follow_events.into(),
            PoolAttribute::AllowOpportunistic => state.opportunistic.into(),
            PoolAttribute::AllowInternalDependencies => state.internal.into(),
            PoolAttribute::ReleaseThreshold => state.threshold,
            PoolAttribute::Reserved => state.reserved.now,
            PoolAttribute::ReservedHigh => state.reserved.high,
            PoolAttribute::Used => state.used.now,
            PoolAttribute::UsedHigh => state.used.high,
        }
    }

    /// cuMemPoolSetAttribute; high-water marks can only be set to 0.
    pub fn set_attribute(&self, attribute: PoolAttribute, value: u64) -> Result<()> {
        let state = &mut *lock(&self.state);
        match attribute {
            PoolAttribute::FollowEventDependencies => state.follow_events = value != 0,
            PoolAttribute::AllowOpportunistic => state.opportunistic = value != 0,
            PoolAttribute::AllowInternalDependencies => state.internal = value != 0,
            PoolAttribute::ReleaseThreshold => state.threshold = value,
            PoolAttribute::ReservedHigh if value == 0 => state.reserved.high = state.reserved.now,
            PoolAttribute::UsedHigh if value == 0 => state.used.high = state.used.now,
            _ => return Err(Error::InvalidValue),
        }
        Ok(())
    }

    /// Marks it destroyed: it ends when nothing of it is used any more.
    fn destroy(&self) {
        lock(&self.state).destroyed = true;
    }

    fn is_destroyed(&self) -> bool {
        lock(&self.state).destroyed
    }

    /// Whether it is destroyed and has nothing left.
    fn is_over(&self) -> bool {
        let state = lock(&self.state);
        state.destroyed && state.reserved.now == 0
    }
}

fn checked_multiple(size: u64, of: u64) -> Result<u64> {
    if size == 0 {
        return Err(Error::InvalidValue);
    }
    size.checked_next_multiple_of(of).ok_or(Error::OutOfMemory)
}
