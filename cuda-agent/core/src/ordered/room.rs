//! The stream-ordered memory of one GPU: its pools, and the events that say what may be used
//! again. An event of the driver marks each free; marks that nothing waits for are used again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::blocks::{Blocks, Level, Line, Live};
use crate::cuda::{Context, Event, MemoryPool, Status, Stream};
use crate::driver::Driver;
use crate::gate::{Locked, lock, lock_briefly};
use crate::work::in_context;

/// A point in a line's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    event: Event,
    context: Context,
}

/// Whose memory a pool gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolUse {
    /// The arena's, at most so many bytes.
    Ours(u64),
    /// The driver's: exportable, or shared with another GPU.
    Theirs,
    /// Not of this GPU: a host's, or of one that is not managed.
    Elsewhere,
}

struct Pool {
    /// Its own, never used again.
    number: u64,
    /// [`MemoryPool::NONE`] once the program destroyed it, and for what cuMemAlloc gave.
    handle: MemoryPool,
    usage: PoolUse,
    /// The release threshold: idle bytes up to this stay reserved.
    keep: u64,
    blocks: Blocks<Mark>,
}

/// A block's number is its pool's from this bit on.
const POOL_SHIFT: u32 = 40;

#[derive(Default)]
struct State {
    pools: Vec<Pool>,
    /// Pools so far.
    numbers: u64,
    spare: Vec<Mark>,
}

/// The stream-ordered memory of one GPU.
#[derive(Default)]
pub struct Room {
    state: Mutex<State>,
    /// Streams that ended inside the agent, under a lock that nobody holds while the driver is called.
    ended: Mutex<Vec<Stream>>,
    /// Whether something here could be given back, now or later: a cheap look.
    idle_or_waiting: AtomicBool,
}

impl Room {
    /// Whose memory a pool gives, if it is this GPU's.
    pub fn usage(&self, handle: MemoryPool) -> Option<PoolUse> {
        let state = lock(&self.state);
        state.find(handle).map(|pool| pool.usage)
    }

    /// Learns a pool.
    pub fn add_pool(&self, handle: MemoryPool, usage: PoolUse) {
        let mut state = lock(&self.state);
        if state.find(handle).is_none() {
            state.add(handle, usage);
        }
    }

    /// From now on a pool of ours gives the driver's memory. False if some of ours is in use.
    pub fn leave_to_driver(&self, handle: MemoryPool) -> bool {
        let mut state = lock(&self.state);
        let Some(pool) = state.find_mut(handle) else {
            return true;
        };
        let unused = pool.blocks.used.now == 0;
        if unused && matches!(pool.usage, PoolUse::Ours(_)) {
            pool.usage = PoolUse::Theirs;
        }
        unused
    }

    /// The program destroyed a pool: what it took from it stays until it is freed.
    pub fn destroy_pool(&self, handle: MemoryPool) {
        if let Some(pool) = lock(&self.state).find_mut(handle) {
            pool.handle = MemoryPool::NONE;
            pool.keep = 0;
            self.idle_or_waiting.store(true, Ordering::Relaxed);
        }
    }

    /// Sets a pool's release threshold.
    pub fn set_keep(&self, handle: MemoryPool, bytes: u64) {
        if let Some(pool) = lock(&self.state).find_mut(handle) {
            pool.keep = bytes;
        }
    }

    /// A pool's reserved and used bytes.
    pub fn levels(&self, handle: MemoryPool) -> Option<(Level, Level)> {
        let state = lock(&self.state);
        let pool = state.find(handle)?;
        Some((pool.blocks.reserved, pool.blocks.used))
    }

    /// Forgets the most bytes reserved, or used.
    pub fn reset_most(&self, handle: MemoryPool, used: bool) {
        if let Some(pool) = lock(&self.state).find_mut(handle) {
            let blocks = &mut pool.blocks;
            let level = if used {
                &mut blocks.used
            } else {
                &mut blocks.reserved
            };
            level.reset();
        }
    }

    /// Takes `bytes` for work on `line` from what a pool has.
    pub fn take(&self, handle: MemoryPool, bytes: u64, line: Line) -> Option<u64> {
        let mut state = self.up_to_date();
        let pool = state.find_mut(handle)?;
        let at = pool.blocks.take(bytes, line);
        state.keep_spare();
        at
    }

    /// Whether a pool may reserve so many bytes more.
    pub fn may_grow(&self, handle: MemoryPool, bytes: u64) -> bool {
        let state = lock(&self.state);
        state.find(handle).is_some_and(|pool| match pool.usage {
            PoolUse::Ours(most) => pool.blocks.reserved.now.saturating_add(bytes) <= most,
            PoolUse::Theirs | PoolUse::Elsewhere => false,
        })
    }

    /// Gives a pool `span` bytes of the arena, and takes `bytes` from it for `line`.
    pub fn grow(
        &self,
        handle: MemoryPool,
        at: u64,
        span: u64,
        bytes: u64,
        line: Line,
    ) -> Option<u64> {
        let mut state = self.up_to_date();
        // A pool that was destroyed meanwhile: what it gives is freed as if it had not been.
        let known = state.pools.iter().position(|pool| pool.handle == handle);
        let index = known.unwrap_or_else(|| state.nameless());
        let blocks = &mut state.pools[index].blocks;
        blocks.add(at, span);
        let taken = blocks.take(bytes, line);
        state.keep_spare();
        taken
    }

    /// Whether an address lies in this memory, live or freed.
    pub fn holds(&self, address: u64) -> bool {
        let state = lock(&self.state);
        state.pools.iter().any(|pool| pool.blocks.holds(address))
    }

    /// The live block that holds an address, and its pool; its number is unlike any other's here.
    pub fn live_around(&self, address: u64) -> Option<(Live, MemoryPool)> {
        let state = lock(&self.state);
        let mut pools = state.pools.iter();
        pools.find_map(|pool| {
            let mut live = pool.blocks.live_around(address)?;
            live.id |= pool.number << POOL_SHIFT;
            Some((live, pool.handle))
        })
    }

    /// Takes in an object of the arena that is about to be freed in a stream's order.
    pub fn adopt(&self, at: u64, bytes: u64) {
        let mut state = lock(&self.state);
        // Freed twice at the same time: the second one finds a block that is not live.
        if state.holding(at).is_some() {
            return;
        }
        let index = state.nameless();
        state.pools[index].blocks.adopt(at, bytes);
    }

    /// Marks where `stream` of `context` stands. No lock is held meanwhile: a full stream blocks.
    pub fn mark(
        &self,
        driver: &dyn Driver,
        stream: Stream,
        context: Context,
    ) -> Result<Mark, Status> {
        let mark = {
            let spare = &mut lock(&self.state).spare;
            let here = spare.iter().rposition(|mark| mark.context == context);
            here.map(|index| spare.swap_remove(index))
        };
        let mark = match mark {
            Some(mark) => mark,
            None => Mark {
                event: in_context(driver, context, || driver.create_event())?,
                context,
            },
        };
        if let Err(status) = driver.record(mark.event, stream) {
            lock(&self.state).spare.push(mark);
            return Err(status);
        }
        Ok(mark)
    }

    /// Frees the live block at `at` once `line` has passed `mark`.
    pub fn free(&self, at: u64, line: Line, mark: Mark) -> Result<(), Status> {
        let mut state = lock(&self.state);
        let Some(pool) = state.holding(at) else {
            state.spare.push(mark);
            return Err(Status::INVALID_VALUE);
        };
        let freed = pool.blocks.free(at, line, mark);
        self.idle_or_waiting.store(true, Ordering::Relaxed);
        state.keep_spare();
        freed.then_some(()).ok_or(Status::INVALID_VALUE)
    }

    /// Frees the live block at `at`, of which all work is done.
    pub fn free_at_once(&self, at: u64) -> Result<(), Status> {
        let mut state = lock(&self.state);
        let freed = state
            .holding(at)
            .is_some_and(|pool| pool.blocks.free_at_once(at));
        self.idle_or_waiting.store(true, Ordering::Relaxed);
        freed.then_some(()).ok_or(Status::INVALID_VALUE)
    }

    /// Whether there may be something to give back, now or later. Cheap.
    pub fn is_idle_or_waiting(&self) -> bool {
        self.idle_or_waiting.load(Ordering::Relaxed)
    }

    /// Looks which marks are passed. No stream captures. Whether something waits still.
    pub fn settle(&self, driver: &dyn Driver) -> bool {
        lock(&self.state).settle(|mark| {
            // A broken context has no work left.
            let passed = in_context(driver, mark.context, || Ok(driver.event_done(mark.event)));
            passed.unwrap_or(true)
        })
    }

    /// Waits until all marks are passed, at most `bound`; no stream captures. Whether all are.
    pub fn wait(&self, driver: &dyn Driver, bound: Duration) -> bool {
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        while self.settle(driver) {
            if start.elapsed() >= bound {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        true
    }

    /// Takes out what idles: beyond each pool's threshold, or everything. The arena's objects, to
    /// be freed there.
    pub fn release(&self, all: bool) -> Vec<u64> {
        let mut state = lock(&self.state);
        let pools = state.pools.iter_mut();
        let released = pools
            .flat_map(|pool| pool.blocks.release(if all { 0 } else { pool.keep }))
            .collect();
        state.forget_empty();
        let something = |pool: &Pool| {
            pool.blocks.is_waiting() || pool.blocks.reserved.now > pool.blocks.used.now
        };
        let left = state.pools.iter().any(something);
        self.idle_or_waiting.store(left, Ordering::Relaxed);
        released
    }

    /// Takes out what idles in one pool beyond `keep` bytes reserved.
    pub fn trim(&self, handle: MemoryPool, keep: u64) -> Vec<u64> {
        let mut state = lock(&self.state);
        let pool = state.find_mut(handle);
        pool.map(|pool| pool.blocks.release(keep))
            .unwrap_or_default()
    }

    /// A stream ends: its handle may soon be another one's.
    pub fn end_stream(&self, stream: Stream) {
        lock(&self.state).end_stream(stream);
    }

    /// The same in a thread that is inside the agent (see [`gate`](crate::gate)) and may be in here.
    pub fn note_end(&self, stream: Stream) {
        lock_briefly(&self.ended).push(stream);
    }

    /// The state, before memory is taken: no stream's order is taken for that of one that ended.
    fn up_to_date(&self) -> Locked<'_, State> {
        let mut state = lock(&self.state);
        for stream in std::mem::take(&mut *lock_briefly(&self.ended)) {
            state.end_stream(stream);
        }
        state
    }

    /// A context ends, all its work done: its events go with it.
    pub fn end_context(&self, context: Context) {
        let mut state = lock(&self.state);
        for pool in &mut state.pools {
            pool.blocks.settle(|mark| mark.context == context);
        }
        state.keep_spare();
        state.spare.retain(|mark| mark.context != context);
    }
}

impl State {
    fn add(&mut self, handle: MemoryPool, usage: PoolUse) -> usize {
        self.numbers += 1;
        self.pools.push(Pool {
            number: self.numbers,
            handle,
            usage,
            keep: 0,
            blocks: Blocks::default(),
        });
        self.pools.len() - 1
    }

    /// Where what belongs to no pool of the program is kept.
    fn nameless(&mut self) -> usize {
        let mut pools = self.pools.iter();
        let known = pools.position(|pool| pool.handle == MemoryPool::NONE);
        known.unwrap_or_else(|| self.add(MemoryPool::NONE, PoolUse::Theirs))
    }

    fn end_stream(&mut self, stream: Stream) {
        for pool in &mut self.pools {
            pool.blocks.end_line(Line::Created(stream));
        }
    }

    fn find(&self, handle: MemoryPool) -> Option<&Pool> {
        let mut pools = self.pools.iter();
        pools.find(|pool| pool.handle == handle && handle != MemoryPool::NONE)
    }

    fn find_mut(&mut self, handle: MemoryPool) -> Option<&mut Pool> {
        let mut pools = self.pools.iter_mut();
        pools.find(|pool| pool.handle == handle && handle != MemoryPool::NONE)
    }

    fn holding(&mut self, at: u64) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.blocks.holds(at))
    }

    fn settle(&mut self, passed: impl Fn(&Mark) -> bool) -> bool {
        for pool in &mut self.pools {
            pool.blocks.settle(&passed);
        }
        self.keep_spare();
        self.pools.iter().any(|pool| pool.blocks.is_waiting())
    }

    fn keep_spare(&mut self) {
        for pool in &mut self.pools {
            self.spare.append(&mut pool.blocks.take_spare());
        }
    }

    /// Destroyed pools end with their last block.
    fn forget_empty(&mut self) {
        self.pools
            .retain(|pool| pool.handle != MemoryPool::NONE || pool.blocks.reserved.now > 0);
    }
}
