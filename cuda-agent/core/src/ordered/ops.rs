//! What the hooks ask about stream-ordered memory. `None` means: not ours, call the driver.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::{Level, Line};
use super::room::PoolUse;
use crate::agent::Agent;
use crate::cuda::{Context, MemoryPool, Status, Stream};
use crate::device::Device;
use crate::gate::InCall;
use crate::log::say;
use crate::memory::ALIGN;
use crate::ops::Detour;
use crate::record::AllocKind;

impl Agent {
    /// cuMemAllocAsync, or cuMemAllocFromPoolAsync with a pool.
    pub fn alloc_async(&self, bytes: u64, stream: Stream, pool: Option<MemoryPool>) -> Detour<u64> {
        let taken = self.take_ordered(bytes, stream, pool)?;
        if let Ok(at) = taken {
            self.forget_hints(at, bytes);
        }
        Some(taken)
    }

    fn take_ordered(&self, bytes: u64, stream: Stream, pool: Option<MemoryPool>) -> Detour<u64> {
        let context = self.context_of(stream).ok()?;
        let pool = match pool {
            Some(pool) => pool,
            None => self.current_pool(context)?,
        };
        let device = self.pool_device(pool)?;
        if !matches!(device.ordered.usage(pool), Some(PoolUse::Ours(_))) {
            return None;
        }
        // What is captured becomes a memory node of a graph; nothing is no allocation.
        if bytes == 0 || self.driver.stream_captures(stream) {
            return None;
        }
        let line = line(stream, context);
        let taken = self.take_or_grow(device, pool, bytes, line);
        if taken.is_ok() {
            device.record_alloc(bytes, AllocKind::Arena);
        }
        Some(taken)
    }

    fn take_or_grow(
        &self,
        device: &Device,
        pool: MemoryPool,
        bytes: u64,
        line: Line,
    ) -> Result<u64, Status> {
        let room = &device.ordered;
        if let Some(at) = room.take(pool, bytes, line) {
            return Ok(at);
        }
        if !self.work.captures() {
            room.settle(self.driver);
        }
        if let Some(at) = room.take(pool, bytes, line) {
            return Ok(at);
        }
        self.grow(device, pool, bytes, line)
    }

    /// Takes more of the arena for a pool: whole chunks, or as much as there is.
    fn grow(
        &self,
        device: &Device,
        pool: MemoryPool,
        bytes: u64,
        line: Line,
    ) -> Result<u64, Status> {
        let (chunk, most) = {
            let memory = device.memory();
            (memory.chunk_bytes(), memory.device_bytes())
        };
        if bytes > most {
            return Err(Status::OUT_OF_MEMORY);
        }
        give_back(device, false)?;
        // A context that was made unseen is learnt before memory is held.
        self.current_known();
        let room = &device.ordered;
        let grow = |span: u64| {
            if !room.may_grow(pool, span) {
                return Err(Status::OUT_OF_MEMORY);
            }
            let at = device.alloc(span, Context::NONE)?;
            room.grow(pool, at, span, bytes, line)
                .ok_or(Status::OUT_OF_MEMORY)
        };
        let exact = bytes.next_multiple_of(ALIGN);
        let whole = bytes.next_multiple_of(chunk);
        if whole > exact
            && let Ok(at) = grow(whole)
        {
            return Ok(at);
        }
        self.under_pressure(device, || match room.take(pool, bytes, line) {
            Some(at) => Ok(at),
            None => grow(exact),
        })
    }

    /// Tries again where memory lacks while freed memory lies idle, or waits for its streams.
    pub fn under_pressure<T>(
        &self,
        device: &Device,
        mut attempt: impl FnMut() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let lacks = |result: &Result<T, Status>| matches!(result, Err(Status::OUT_OF_MEMORY));
        // Before the daemon is asked for more.
        self.free_late(device);
        let mut result = attempt();
        if !lacks(&result) || !device.ordered.is_idle_or_waiting() || self.work.captures() {
            return result;
        }
        let waits = device.ordered.settle(self.driver);
        give_back(device, true)?;
        result = attempt();
        // A thread within a host function must not wait for its own stream.
        if lacks(&result) && waits && !InCall::begin().is_nested() {
            device.ordered.wait(self.driver, self.session().drain_bound);
            give_back(device, true)?;
            result = attempt();
        }
        result
    }

    /// cuMemFreeAsync: of memory of a pool, or of what cuMemAlloc gave.
    pub fn free_async(&self, at: u64, stream: Stream) -> Detour<()> {
        let mut devices = self.devices.iter();
        let (device, object) = devices.find_map(|device| {
            if device.ordered.holds(at) {
                return Some((device, None));
            }
            let object = device.memory().object_at(at)?;
            Some((device, Some(object)))
        })?;
        if object.is_some_and(|(start, it)| device.late.holds(start, it.id)) {
            return Some(Err(Status::INVALID_VALUE));
        }
        Some(self.free_in_order(
            device,
            at,
            object.map(|(start, it)| (start, it.bytes)),
            stream,
        ))
    }

    fn free_in_order(
        &self,
        device: &Device,
        at: u64,
        object: Option<(u64, u64)>,
        stream: Stream,
    ) -> Result<(), Status> {
        let room = &device.ordered;
        // Only what a graph allocates can be freed by one.
        let live = || room.live_around(at).map(|(live, _)| (live.at, live.bytes));
        let starting = object.or_else(live).filter(|&(start, _)| start == at);
        let Some((_, freed)) = starting.filter(|_| !self.driver.stream_captures(stream)) else {
            return Err(Status::INVALID_VALUE);
        };
        let context = self.context_of(stream)?;
        let mark = room.mark(self.driver, stream, context)?;
        if let Some((_, bytes)) = object {
            device.memory().disown(at);
            room.adopt(at, bytes);
        }
        room.free(at, line(stream, context), mark)?;
        device.record_free(freed, AllocKind::Arena);
        Ok(())
    }

    /// A stream ends: what was freed on it waits for its work, and no other stream continues it.
    pub fn stream_gone(&self, stream: Stream) {
        self.work.remove_stream(stream);
        for device in &self.devices {
            device.ordered.end_stream(stream);
        }
    }

    /// The same from inside the agent, noted for later.
    pub fn note_stream_gone(&self, stream: Stream) {
        self.work.note_end(stream);
        for device in &self.devices {
            device.ordered.note_end(stream);
        }
    }

    /// cuMemFree of stream-ordered memory: the driver does not wait either.
    pub fn free_ordered(&self, at: u64) -> Detour<()> {
        let mut devices = self.devices.iter();
        let device = devices.find(|device| device.ordered.holds(at))?;
        // Asked before it is gone, and only where it is of use.
        let live = device
            .recorder
            .as_ref()
            .and_then(|_| device.ordered.live_around(at));
        let freed = device.ordered.free_at_once(at);
        if let (Ok(()), Some((live, _))) = (freed, live) {
            device.record_free(live.bytes, AllocKind::Arena);
        }
        Some(freed)
    }

    /// Where no job runs: looks what was freed by now, gives back what is not kept, and counts what
    /// graphs hold. Cheap if there is nothing.
    pub fn collect(&self, device: &Device) {
        self.recount_graphs(device);
        if !self.work.captures() {
            device.free_late();
        }
        if device.ordered.is_idle_or_waiting() && !self.work.captures() {
            device.ordered.settle(self.driver);
            // What fails stays counted.
            let _ = give_back(device, false);
        }
    }

    /// cuMemPoolCreate made a pool on a GPU. `plain`: its memory is the GPU's own, and cannot be
    /// exported. `most`: its bytes at most, 0 for any.
    pub fn pool_made(&self, pool: MemoryPool, ordinal: i32, plain: bool, most: u64) {
        let Some(device) = self.device(ordinal) else {
            return self.pool_elsewhere(pool);
        };
        let usage = match (plain, most) {
            (false, _) => PoolUse::Theirs,
            (true, 0) => PoolUse::Ours(u64::MAX),
            (true, most) => PoolUse::Ours(most),
        };
        device.ordered.add_pool(pool, usage);
    }

    /// A pool gives memory of the host, or of a GPU that is not managed.
    pub fn pool_elsewhere(&self, pool: MemoryPool) {
        if let Some(device) = self.devices.first() {
            device.ordered.add_pool(pool, PoolUse::Elsewhere);
        }
    }

    /// Whether a pool's memory is none of a managed GPU, so that it is not counted.
    pub fn is_elsewhere(&self, pool: MemoryPool) -> bool {
        let mut usages = self.devices.iter().map(|device| device.ordered.usage(pool));
        usages.any(|usage| usage == Some(PoolUse::Elsewhere))
    }

    /// cuMemPoolDestroy destroyed it.
    pub fn pool_destroyed(&self, pool: MemoryPool) {
        for device in &self.devices {
            device.ordered.destroy_pool(pool);
        }
    }

    /// cuMemPoolSetAccess for another GPU or the host: what it gives from now on is the driver's.
    /// What it gave lies in the arena, where nobody else reaches it.
    pub fn pool_shared(&self, pool: MemoryPool) -> Result<(), Status> {
        match self.pool_device(pool) {
            Some(device) if !device.ordered.leave_to_driver(pool) => {
                say(format_args!(
                    "a pool whose memory is in use cannot be opened to another GPU; open it before \
                     the first allocation"
                ));
                Err(Status::NOT_SUPPORTED)
            }
            _ => Ok(()),
        }
    }

    /// The managed GPU whose memory a pool gives.
    pub fn pool_gpu(&self, pool: MemoryPool) -> Option<i32> {
        Some(self.pool_device(pool)?.ordinal)
    }

    /// The managed GPU whose memory a stream is given, from a pool or from the current one of its GPU.
    pub fn ordered_gpu(&self, stream: Stream, pool: Option<MemoryPool>) -> Option<i32> {
        let pool = match pool {
            Some(pool) => pool,
            None => self.current_pool(self.context_of(stream).ok()?)?,
        };
        self.pool_gpu(pool)
    }

    /// The release threshold of a pool was set.
    pub fn pool_keeps(&self, pool: MemoryPool, bytes: u64) {
        if let Some(device) = self.pool_device(pool) {
            device.ordered.set_keep(pool, bytes);
        }
    }

    /// Bytes that a pool has reserved and that are in use, of the arena.
    pub fn pool_levels(&self, pool: MemoryPool) -> Option<(Level, Level)> {
        self.pool_device(pool)?.ordered.levels(pool)
    }

    /// Forgets the most that a pool reserved, or that was used of it.
    pub fn pool_reset(&self, pool: MemoryPool, used: bool) {
        if let Some(device) = self.pool_device(pool) {
            device.ordered.reset_most(pool, used);
        }
    }

    /// cuMemPoolTrimTo.
    pub fn pool_trim(&self, pool: MemoryPool, keep: u64) -> Result<(), Status> {
        let Some(device) = self.pool_device(pool) else {
            return Ok(());
        };
        if !self.work.captures() {
            device.ordered.settle(self.driver);
        }
        for at in device.ordered.trim(pool, keep) {
            device.memory().free(at)?;
        }
        Ok(())
    }

    /// The managed GPU of a pool that is known or that the GPU has from the beginning.
    fn pool_device(&self, pool: MemoryPool) -> Option<&Device> {
        let known = |device: &&Device| device.ordered.usage(pool).is_some();
        let mut devices = self.devices.iter();
        devices.find(known).or_else(|| {
            let mut devices = self.devices.iter();
            let device =
                devices.find(|device| self.driver.default_pool(device.ordinal) == Ok(pool))?;
            device.ordered.add_pool(pool, PoolUse::Ours(u64::MAX));
            Some(device)
        })
    }

    fn current_pool(&self, context: Context) -> Option<MemoryPool> {
        let ordinal = match self.work.device_of(context) {
            Some(ordinal) => ordinal,
            None => {
                self.current_known()
                    .filter(|(_, it)| *it == context)?
                    .0
                    .ordinal
            }
        };
        self.device(ordinal)?;
        self.driver.current_pool(ordinal).ok()
    }

    fn context_of(&self, stream: Stream) -> Result<Context, Status> {
        if stream.is_created() {
            return self.driver.stream_context(stream);
        }
        let current = self.driver.current_context()?;
        current.ok_or(Status::INVALID_CONTEXT)
    }
}

/// Frees in the arena what idles: beyond the pools' thresholds, or all of it.
fn give_back(device: &Device, all: bool) -> Result<(), Status> {
    for at in device.ordered.release(all) {
        device.memory().free(at)?;
    }
    Ok(())
}

/// Whose order a stream's is.
fn line(stream: Stream, context: Context) -> Line {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if stream.is_created() {
        return Line::Created(stream);
    }
    if stream != Stream::PER_THREAD {
        return Line::Legacy(context);
    }
    // A thread that is ending has no memory of its number: a new one joins it to nothing.
    let fresh = || NEXT.fetch_add(1, Ordering::Relaxed);
    let number = NUMBER.try_with(|number| {
        if number.get() == 0 {
            number.set(fresh());
        }
        number.get()
    });
    Line::PerThread(context, number.unwrap_or_else(|_| fresh()))
}
