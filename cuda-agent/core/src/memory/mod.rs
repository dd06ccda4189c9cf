//! A task's memory on one GPU: objects in the arena, the physical chunks behind them, and the
//! backing store. `arena`, `chunk` and `swap_set` are pure; `residence` puts chunks on the GPU and
//! takes them off; `bundle` holds what the program creates itself, `whole` gives it up for one allocation; `swap` moves bytes, `clean` knows
//! which need not be moved, from fingerprints or from the program's `hints`; nothing here decides when.

mod arena;
mod backing;
mod bundle;
mod chunk;
mod clean;
pub mod hints;
mod ranges;
mod residence;
mod share;
mod swap;
mod swap_set;
mod whole;

#[cfg(test)]
mod faults;

pub use arena::{ALIGN, Arena, Object};
pub use backing::{Backing, Segment};
pub use bundle::Placed;
pub use chunk::{ChunkId, KeptFor, PieceId};
pub use clean::Policy;
pub use hints::Hints;
pub use ranges::Ranges;
pub use swap::{Ended, Reins, Step};
pub use swap_set::SwapSet;

use std::collections::BTreeMap;
use std::sync::Arc;

use rtswap_wire::page::{KeptReport, OutOfBudget, UsageReport};

use chunk::{Chunk, Chunks, Place};
use clean::Clean;

use crate::cuda::{Access, Context, Event, Status, Stream};
use crate::driver::Driver;
use crate::session::View;

/// How many times the GPU's memory is reserved as addresses at once.
const RESERVE_FACTOR: u64 = 4;

/// Why an allocation did not happen.
#[derive(Debug)]
pub enum AllocError {
    /// The GPU has less.
    TooLarge,
    /// The budget does not cover it.
    OverBudget(OutOfBudget),
    /// The driver said so.
    Driver(Status),
}

impl From<AllocError> for Status {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::TooLarge | AllocError::OverBudget(_) => Self::OUT_OF_MEMORY,
            AllocError::Driver(status) => status,
        }
    }
}

impl From<Status> for AllocError {
    fn from(status: Status) -> Self {
        Self::Driver(status)
    }
}

/// Our stream and events in one of the program's contexts.
#[derive(Clone, Copy, Debug)]
struct Engine {
    context: Context,
    stream: Stream,
    events: [Event; 2],
    /// Which event is next: two copies fly at most and land in order.
    turn: usize,
}

/// The memory of a task on one GPU.
pub struct Memory {
    driver: &'static dyn Driver,
    device: i32,
    device_bytes: u64,
    granularity: u64,
    chunk: u64,
    /// Where it is published.
    view: View,
    arena: Arena,
    ranges: Arc<Ranges>,
    chunks: Chunks,
    /// The arena's chunks by address.
    backed: BTreeMap<u64, ChunkId>,
    set: SwapSet,
    backing: Backing,
    /// The context that the backing store ends with.
    pinned_in: Option<Context>,
    engine: Option<Engine>,
    clean: Clean,
    hints: Arc<Hints>,
    resident: u64,
    peak: u64,
    swapped_chunks: u64,
    /// Chunks that never leave.
    held_chunks: u64,
    /// Theirs and what took the place of pieces.
    kept: KeptReport,
    /// Other GPUs that use the arena.
    peers: Vec<Access>,
    /// Addresses for pieces that the copy engine cannot reach at the program's: δ for each copy in
    /// flight.
    scratch: Option<u64>,
    /// No daemon any more: the GPU's memory is first come, first served.
    alone: bool,
}

impl Memory {
    /// An empty one. δ must be a multiple of the driver's granularity.
    pub fn new(driver: &'static dyn Driver, device: i32, view: View) -> Result<Self, Status> {
        let chunk = view.daemon().chunk_bytes();
        let granularity = driver.granularity(device)?;
        if chunk == 0 || granularity == 0 || !chunk.is_multiple_of(granularity) {
            return Err(Status::INVALID_VALUE);
        }
        let device_bytes = driver.device_memory(device)?;
        if chunk > device_bytes {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Self {
            driver,
            device,
            device_bytes,
            granularity,
            chunk,
            view,
            arena: Arena::new(chunk),
            ranges: Arc::default(),
            chunks: Chunks::default(),
            backed: BTreeMap::new(),
            set: SwapSet::default(),
            backing: Backing::default(),
            pinned_in: None,
            engine: None,
            clean: Clean::new(),
            hints: Arc::new(Hints::new(chunk)),
            resident: 0,
            peak: 0,
            swapped_chunks: 0,
            held_chunks: 0,
            kept: KeptReport::default(),
            peers: Vec::new(),
            scratch: None,
            alone: false,
        })
    }

    /// The addresses of this GPU's objects, whatever is done with the memory meanwhile.
    pub fn ranges(&self) -> Arc<Ranges> {
        Arc::clone(&self.ranges)
    }

    /// What the program says of its kernels, whatever is done with the memory meanwhile.
    pub fn hints(&self) -> Arc<Hints> {
        Arc::clone(&self.hints)
    }

    /// δ in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk
    }

    /// All of the GPU's memory in bytes.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Bytes of the arena in the backing store.
    pub fn swapped_bytes(&self) -> u64 {
        self.swapped_chunks * self.chunk
    }

    /// Bytes pinned.
    pub fn backing_bytes(&self) -> u64 {
        self.backing.slots() as u64 * self.chunk
    }

    /// Where the bytes are.
    pub fn usage(&self) -> UsageReport {
        UsageReport {
            resident_bytes: self.resident,
            swapped_bytes: self.swapped_bytes(),
            arena_bytes: (self.chunks.len() as u64 - self.held_chunks) * self.chunk,
            peak_bytes: self.peak,
        }
    }

    /// The page in use.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Moves to the page of another session, and publishes there what is.
    pub fn set_view(&mut self, view: View, completed: u32) {
        view.agent()
            .restore(self.usage(), self.backing_bytes(), completed);
        view.agent().set_kept(self.kept);
        self.view = view;
    }

    /// Goes on without a daemon and its budgets.
    pub fn set_alone(&mut self) {
        self.alone = true;
    }

    /// Allocates `bytes` for `context`: all or nothing.
    pub fn alloc(&mut self, bytes: u64, context: Context) -> Result<u64, AllocError> {
        // A request that no GPU could serve must not reserve addresses without end.
        if bytes == 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        if bytes > self.device_bytes {
            return Err(AllocError::TooLarge);
        }
        let at = match self.arena.find_room(bytes) {
            Some(at) => at,
            None => self.reserve(bytes)?,
        };
        let mut fresh = self.arena.untouched(at, bytes);
        // One that could not be unmapped is still there.
        fresh.retain(|address| !self.backed.contains_key(address));
        let needed = fresh.len() as u64 * self.chunk;
        self.take_chunks(needed).map_err(AllocError::OverBudget)?;
        let mut made = Vec::with_capacity(fresh.len());
        for &address in &fresh {
            let chunk = Chunk::whole(address, self.chunk, self.device, &self.peers);
            let id = self.chunks.insert(chunk);
            if let Err(status) = self.raise(id) {
                self.chunks.remove(id);
                for id in made {
                    self.lower(id)?;
                    self.chunks.remove(id);
                }
                self.give_back(needed);
                self.publish();
                return Err(status.into());
            }
            made.push(id);
        }
        for (id, address) in made.into_iter().zip(fresh) {
            self.backed.insert(address, id);
            if self.peers.is_empty() {
                self.chunks[id].slot = self.set.assign(id);
            } else {
                self.hold_chunk(id, KeptFor::Devices);
            }
        }
        self.hints.forget(at, bytes);
        self.arena.insert(at, bytes, context);
        self.publish();
        Ok(at)
    }

    /// Frees the object that starts at `at`; false if there is none. All work on it must be done.
    pub fn free(&mut self, at: u64) -> Result<bool, Status> {
        let Some(object) = self.arena.object_at(at) else {
            return Ok(false);
        };
        let Some(idle) = self.arena.remove(at) else {
            return Ok(false);
        };
        self.hints.forget(at, object.1.bytes);
        let mut freed = Ok(());
        for address in idle {
            let id = self.backed[&address];
            if self.chunks[id].place == Place::Resident
                && let Err(status) = self.unmap_chunk(id)
            {
                // It stays as it is, for the next object there.
                freed = Err(status);
                continue;
            }
            self.backed.remove(&address);
            freed = freed.and(self.drop_chunk(id));
        }
        self.publish();
        freed.map(|()| true)
    }

    /// Frees a chunk that is mapped nowhere; another one gets its slot.
    fn drop_chunk(&mut self, id: ChunkId) -> Result<(), Status> {
        let Chunk {
            place, slot, held, ..
        } = self.chunks[id];
        if let Some(why) = held {
            self.held_chunks -= 1;
            *self.kept_for(why) -= self.chunk;
        }
        let freed = match place {
            Place::Resident => self.release(id),
            Place::Swapped => {
                self.swapped_chunks -= 1;
                Ok(())
            }
        };
        self.chunks.remove(id);
        // What cannot be freed stays counted: it is still there.
        if place == Place::Resident && freed.is_ok() {
            self.give_back(self.chunk);
            self.publish();
        }
        if let Some(slot) = slot {
            self.set.release(slot);
            self.seat_another();
        }
        freed
    }

    /// From now on the object at `at` belongs to the GPU, not to a context.
    pub fn disown(&mut self, at: u64) {
        self.arena.disown(at);
    }

    /// The object that holds `address`, and where it starts.
    pub fn object_at(&self, address: u64) -> Option<(u64, Object)> {
        self.arena.object_at(address)
    }

    /// Takes `bytes` for what is held outside the arena, before it is allocated.
    pub fn reserve_outside(&mut self, bytes: u64) -> Result<(), OutOfBudget> {
        self.take(bytes)
    }

    /// Counts what is held outside the arena already, whatever the budget says. `completed` is the
    /// last job completed.
    pub fn count_outside(&mut self, bytes: u64, completed: u32) {
        self.count(bytes);
        let agent = self.view.agent();
        agent.restore(self.usage(), self.backing_bytes(), completed);
    }

    /// Gives back what was held outside the arena.
    pub fn discount_outside(&mut self, bytes: u64) {
        self.give_back(bytes);
    }

    /// Notes that `bytes` held outside the arena stay there for somebody.
    pub fn keep_outside(&mut self, bytes: u64, why: KeptFor) {
        *self.kept_for(why) += bytes;
        self.publish();
    }

    /// Gives back what was held outside the arena for somebody.
    pub fn discount_kept(&mut self, bytes: u64, why: KeptFor) {
        *self.kept_for(why) -= bytes;
        self.give_back(bytes);
        self.publish();
    }

    fn kept_for(&mut self, why: KeptFor) -> &mut u64 {
        match why {
            KeptFor::Processes => &mut self.kept.processes_bytes,
            KeptFor::Devices => &mut self.kept.devices_bytes,
        }
    }

    /// Takes `bytes` of the budget before they are allocated.
    fn take(&mut self, bytes: u64) -> Result<(), OutOfBudget> {
        if !self.alone {
            self.view.agent().take(self.view.daemon(), bytes)?;
        }
        self.count(bytes);
        Ok(())
    }

    /// As [`Self::take`], for chunks of the arena.
    fn take_chunks(&mut self, bytes: u64) -> Result<(), OutOfBudget> {
        if !self.alone {
            let view = &self.view;
            view.agent().take_chunks(view.daemon(), bytes)?;
        }
        self.count(bytes);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.resident += bytes;
        self.peak = self.peak.max(self.resident);
    }

    fn give_back(&mut self, bytes: u64) {
        self.resident = self.resident.saturating_sub(bytes);
        self.view.agent().give_back(bytes);
    }

    fn publish(&self) {
        let usage = self.usage();
        let agent = self.view.agent();
        agent.set_arena(usage.arena_bytes, usage.swapped_bytes);
        agent.set_kept(self.kept);
    }

    /// Takes segments in that were pinned in `context`, and seats resident chunks on the new slots.
    pub fn grow_backing(&mut self, segments: Vec<Segment>, context: Context) {
        self.pinned_in.get_or_insert(context);
        self.backing.add(segments);
        self.set.grow(self.backing.slots());
        self.seat_all();
    }

    /// Gives free slots to resident chunks without one.
    fn seat_all(&mut self) {
        for _ in 0..self.chunks.len() {
            if !self.seat_another() {
                break;
            }
        }
    }

    /// Takes segments out of the backing store that hold nothing, the last first, as far as at least `bytes` are
    /// left. They are to be unpinned.
    pub fn shrink_backing(&mut self, bytes: u64) -> Vec<Segment> {
        let holds = |id: ChunkId| self.chunks[id].place != Place::Resident;
        let last = self.set.taken().rfind(|(_, id)| holds(*id));
        let used = last.map_or(0, |(slot, _)| slot + 1);
        let cut = self
            .backing
            .shrink(used.max(bytes.div_ceil(self.chunk) as usize));
        if cut.is_empty() {
            return cut;
        }
        for id in self.set.shrink(self.backing.slots()) {
            self.chunks[id].slot = None;
            self.chunks[id].known = clean::Known::default();
        }
        // What is in no slot equals none.
        self.hints.all_written();
        self.seat_all();
        cut
    }

    /// Gives a free slot to the first resident chunk without one; false if either lacks.
    fn seat_another(&mut self) -> bool {
        let next = self
            .chunks
            .iter_mut()
            .find(|(_, chunk)| chunk.slot.is_none() && chunk.held.is_none());
        let Some((id, chunk)) = next else {
            return false;
        };
        chunk.slot = self.set.assign(id);
        chunk.slot.is_some()
    }

    /// The addresses of the objects of a context.
    pub fn objects_of(&self, context: Context) -> Vec<u64> {
        self.arena.objects_of(context)
    }

    /// Frees the objects that end with `context`, each as far as the driver lets it. All work on
    /// them is done.
    pub fn free_all_of(&mut self, context: Context) -> Result<(), Status> {
        let objects = self.arena.objects_of(context).into_iter();
        objects
            .map(|at| self.free(at).map(drop))
            .fold(Ok(()), Result::and)
    }

    /// Whether chunks in the backing store would be lost with `context`.
    pub fn must_return_before(&self, context: Context) -> bool {
        self.pinned_in == Some(context) && self.swapped_chunks > 0
    }

    /// The program destroys `context`, which is current: drops what of ours lives in it. True if
    /// that is the backing store.
    pub fn end_context(&mut self, context: Context) -> Result<bool, Status> {
        // Streams and events end with the context.
        self.engine = self.engine.filter(|engine| engine.context != context);
        self.clean.end_context(context);
        if self.pinned_in != Some(context) {
            return Ok(false);
        }
        if self.swapped_chunks > 0 {
            return Err(Status::UNKNOWN);
        }
        self.pinned_in = None;
        self.set.clear();
        for (_, chunk) in self.chunks.iter_mut() {
            chunk.slot = None;
            chunk.known = clean::Known::default();
        }
        self.hints.all_written();
        // What cannot be unpinned is nobody's any more.
        let _ = self.backing.drop_all(self.driver);
        Ok(true)
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, Status> {
        let region = (RESERVE_FACTOR * self.device_bytes).next_multiple_of(self.chunk);
        let at = self.driver.reserve(region, self.chunk)?;
        if !at.is_multiple_of(self.chunk) {
            return Err(Status::NOT_SUPPORTED);
        }
        self.ranges.add(at, region);
        self.arena.add_region(at, region);
        self.arena.find_room(bytes).ok_or(Status::OUT_OF_MEMORY)
    }
}
