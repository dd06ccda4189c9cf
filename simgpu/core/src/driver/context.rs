//! Contexts: what belongs together on one GPU and breaks together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use super::fence::Fence;
use super::heap::Heap;
use super::physical::{Physical, Purpose, Wishes};
use super::process::Process;
use super::stream::Stream;
use super::work::{Executor, Job, QueuedCopy, Work};
use super::{Driver, HostKind, host, lock};
use crate::clock::{Lasting, now_ns};
use crate::config::GRANULE;
use crate::machine::Counters;
use crate::{Error, Result};

/// Ids of contexts, streams and the like, unique in the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Relaxed)
}

/// A context.
pub struct Context {
    /// Unique in the process.
    pub id: u64,
    pub(super) executor: Arc<Executor>,
    flags: AtomicU32,
    destroyed: AtomicBool,
    /// The streams that exist. Held while something is submitted, so that all
    /// streams of the context see one order.
    pub(super) streams: Mutex<Vec<Arc<Stream>>>,
    legacy: Arc<Stream>,
    /// The ends of work of streams that were destroyed before it was done.
    leftovers: Mutex<Vec<Arc<Fence>>>,
    /// That of the primary context, in a green one.
    pub(super) heap: Arc<Mutex<Heap>>,
    /// The green contexts of a primary one.
    pub(super) greens: Mutex<Vec<Arc<Context>>>,
    /// In a green context, its primary one.
    primary: Option<Weak<Context>>,
    /// Ids of the contexts whose memory it may access.
    pub(super) peers: Mutex<BTreeSet<u64>>,
    overhead: Mutex<Option<Arc<Physical>>>,
    limits: Mutex<BTreeMap<u32, usize>>,
    /// Uses beyond the first, which cuCtxAttach adds.
    attached: AtomicU32,
}

impl Context {
    pub(super) fn new(process: &Arc<Process>, gpu: usize, flags: u32) -> Result<Arc<Self>> {
        let bytes = process
            .machine
            .gpu(gpu)
            .context_bytes
            .0
            .next_multiple_of(GRANULE);
        let overhead = Physical::new(process, gpu, bytes, Purpose::Context, Wishes::default())?;
        process.machine.populate(gpu);
        let executor = Arc::new(Executor::new(process.clone(), gpu));
        Ok(Arc::new_cyclic(|context| Self {
            overhead: Mutex::new(Some(overhead)),
            ..Self::bare(context, executor, Arc::default(), flags)
        }))
    }

    /// A green context of this primary one.
    pub(super) fn new_green(self: &Arc<Self>) -> Arc<Self> {
        let (executor, heap) = (self.executor.clone(), self.heap.clone());
        let green = Arc::new_cyclic(|context| Self {
            primary: Some(Arc::downgrade(self)),
            ..Self::bare(context, executor, heap, self.flags())
        });
        lock(&self.greens).push(green.clone());
        green
    }

    fn bare(
        context: &Weak<Self>,
        executor: Arc<Executor>,
        heap: Arc<Mutex<Heap>>,
        flags: u32,
    ) -> Self {
        Self {
            id: next_id(),
            executor,
            flags: AtomicU32::new(flags),
            destroyed: AtomicBool::new(false),
            streams: Mutex::default(),
            legacy: Stream::new(context.clone(), 0, 0, next_id()),
            leftovers: Mutex::default(),
            heap,
            greens: Mutex::default(),
            primary: None,
            peers: Mutex::default(),
            overhead: Mutex::default(),
            limits: Mutex::default(),
            attached: AtomicU32::new(0),
        }
    }

    /// In a green context, its primary one.
    pub fn primary(&self) -> Option<Arc<Self>> {
        self.primary.as_ref()?.upgrade()
    }

    /// Whether it is a green one.
    pub(super) fn is_green(&self) -> bool {
        self.primary.is_some()
    }

    /// The handle under which programs know it.
    pub fn handle(self: &Arc<Self>) -> usize {
        super::table::handle_of(self)
    }

    /// Ordinal of its GPU.
    pub fn gpu(&self) -> usize {
        self.executor.gpu
    }

    /// The flags it was created with or was given later.
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// cuCtxSetFlags, cuDevicePrimaryCtxSetFlags.
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags, Relaxed);
    }

    /// cuCtxAttach: one use more.
    pub fn attach(&self) {
        self.attached.fetch_add(1, Relaxed);
    }

    /// cuCtxDetach: one use less; says whether that was the last.
    pub fn detach(&self) -> bool {
        let less = |uses: u32| uses.checked_sub(1);
        self.attached.fetch_update(Relaxed, Relaxed, less).is_err()
    }

    /// A limit that was set, by its number in cuda.h.
    pub fn limit(&self, limit: u32) -> Option<usize> {
        lock(&self.limits).get(&limit).copied()
    }

    /// cuCtxSetLimit: limits bind nothing here.
    pub fn set_limit(&self, limit: u32, value: usize) {
        lock(&self.limits).insert(limit, value);
    }

    /// Fails if the context is destroyed or broken.
    pub fn check(&self) -> Result<()> {
        if self.destroyed.load(Relaxed) {
            return Err(Error::ContextIsDestroyed);
        }
        self.executor.check()
    }

    /// Takes no more work, and waits for what there is.
    pub(super) fn close(&self) {
        for fence in self.unfinished() {
            fence.wait();
        }
        self.destroyed.store(true, Relaxed);
    }

    /// Waits for all work, gives all that was allocated back; an error that stuck is gone.
    pub(super) fn empty(&self) {
        for fence in self.unfinished() {
            fence.wait();
        }
        lock(&self.streams).clear();
        if !self.is_green() {
            lock(&self.heap).clear(&self.executor.process);
            self.executor.mend();
        }
    }

    /// The end of a context that is closed and empty.
    pub(super) fn destroy(&self) {
        lock(&self.overhead).take();
    }

    /// The legacy default stream.
    pub fn legacy_stream(&self) -> &Arc<Stream> {
        &self.legacy
    }

    /// cuStreamCreateWithPriority.
    pub fn create_stream(self: &Arc<Self>, flags: u32, priority: i32) -> Result<Arc<Stream>> {
        self.check()?;
        if flags > super::stream::NON_BLOCKING {
            return Err(Error::InvalidValue);
        }
        let id = next_id();
        let stream = Stream::new(Arc::downgrade(self), flags, priority.clamp(-5, 0), id);
        lock(&self.streams).push(stream.clone());
        Ok(stream)
    }

    /// cuStreamDestroy: what was submitted is still carried out.
    pub fn destroy_stream(&self, stream: &Arc<Stream>) {
        self.leave_capture(stream);
        let mut streams = lock(&self.streams);
        if let Some(fence) = stream.pending() {
            if stream.is_blocking() {
                // The legacy stream goes on waiting for what it would have waited for.
                let job = self.job(&self.legacy, &streams, Work::Marker, Some(fence));
                let _ = self.legacy.push(&self.executor, job);
            } else {
                // Nobody asks after it any more, but whoever waits for the whole context.
                let mut leftovers = lock(&self.leftovers);
                leftovers.retain(|other| other.end_ns().is_none());
                leftovers.push(fence);
            }
        }
        streams.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Whether this stream of the context is still there.
    pub(super) fn has_stream(&self, stream: &Arc<Stream>) -> bool {
        lock(&self.streams)
            .iter()
            .any(|own| Arc::ptr_eq(own, stream))
    }

    pub(super) fn owns(&self, stream: &Stream) -> bool {
        std::ptr::eq(stream.context.as_ptr(), self)
    }

    /// A job at the end of a stream. The caller holds the lock of `streams`.
    fn job(
        &self,
        stream: &Stream,
        streams: &[Arc<Stream>],
        work: Work,
        extra: Option<Arc<Fence>>,
    ) -> Job {
        let mut after: Vec<_> = extra.into_iter().chain(stream.pending()).collect();
        if std::ptr::eq(stream, &raw const *self.legacy) {
            let blocking = streams.iter().filter(|stream| stream.is_blocking());
            after.extend(blocking.filter_map(|stream| stream.pending()));
        } else if stream.is_blocking() {
            after.extend(self.legacy.pending());
        }
        let done = Arc::<Fence>::default();
        *lock(&stream.last) = Some(done.clone());
        let queued = QueuedCopy::of(&self.executor, &work);
        Job {
            work,
            queued,
            after,
            done,
            submitted_ns: now_ns(),
        }
    }

    /// Submits work and returns at once.
    pub(super) fn submit(
        &self,
        stream: &Stream,
        work: Work,
        after: Option<Arc<Fence>>,
    ) -> Result<Arc<Fence>> {
        self.check()?;
        let streams = lock(&self.streams);
        let job = self.job(stream, &streams, work, after);
        let done = job.done.clone();
        stream.push(&self.executor, job)?;
        Ok(done)
    }

    /// Does work in the stream's order, on the calling thread.
    pub(super) fn run(&self, stream: &Stream, work: Work) -> Result<()> {
        self.check()?;
        let job = self.job(stream, &lock(&self.streams), work, None);
        self.executor.run(job);
        self.check()
    }

    /// A mark in the order of a stream, behind `after` too.
    pub(super) fn mark(&self, stream: &Stream, after: Option<Arc<Fence>>) -> Result<Arc<Fence>> {
        self.check()?;
        let streams = lock(&self.streams);
        let job = self.job(stream, &streams, Work::Marker, after);
        let done = job.done.clone();
        if job.after.is_empty() {
            // Nothing to wait for, so no thread is needed to do it.
            done.signal(job.submitted_ns);
        } else {
            stream.push(&self.executor, job)?;
        }
        Ok(done)
    }

    /// The ends of all work, that of a primary context's green ones included.
    fn unfinished(&self) -> Vec<Arc<Fence>> {
        let greens = lock(&self.greens).clone();
        let streams = lock(&self.streams);
        let leftovers = lock(&self.leftovers).clone();
        streams
            .iter()
            .chain([&self.legacy])
            .filter_map(|stream| stream.pending())
            .chain(leftovers)
            .chain(greens.iter().flat_map(|green| green.unfinished()))
            .collect()
    }

    /// cuCtxSynchronize.
    pub fn synchronize(&self) -> Result<()> {
        if self.invalidate_captures(|_| true) {
            return Err(Error::StreamCaptureUnsupported);
        }
        self.executor.process.captures.check_unsafe()?;
        self.counters().context_syncs.fetch_add(1, Relaxed);
        self.drain()
    }

    pub(super) fn counters(&self) -> &Counters {
        self.executor.process.counters(self.gpu())
    }

    /// Waits for all work of the context.
    pub fn drain(&self) -> Result<()> {
        for fence in self.unfinished() {
            fence.wait();
        }
        self.settle_pools();
        self.check()
    }

    /// cuStreamSynchronize. Of the legacy stream, also what it waits for.
    pub fn synchronize_stream(&self, stream: &Stream) -> Result<()> {
        self.check_not_capturing(stream)?;
        self.counters().stream_syncs.fetch_add(1, Relaxed);
        self.mark(stream, None)?.wait();
        self.settle_pools();
        self.check()
    }

    /// cuStreamQuery: whether all its work is done.
    pub fn is_idle(&self, stream: &Stream) -> Result<bool> {
        self.check_not_capturing(stream)?;
        self.counters().queries.fetch_add(1, Relaxed);
        self.check()?;
        let streams = lock(&self.streams);
        let legacy = std::ptr::eq(stream, &raw const *self.legacy);
        let others = streams.iter().filter(|other| legacy && other.is_blocking());
        Ok(stream.pending().is_none() && others.filter_map(|other| other.pending()).count() == 0)
    }

    /// cuMemAlloc.
    pub fn alloc(&self, size: u64) -> Result<u64> {
        self.alloc_by(|heap, process| heap.alloc(process, self.gpu(), size))
    }

    /// cuMemAlloc's first form: an address of 32 bits.
    pub fn alloc_low(&self, size: u64) -> Result<u32> {
        let alloc = |heap: &mut Heap, process: &Process| {
            Ok((heap.alloc_low(process, self.gpu(), size)?, true))
        };
        u32::try_from(self.alloc_by(alloc)?).map_err(|_| Error::Unknown)
    }

    fn alloc_by(&self, take: impl Fn(&mut Heap, &Process) -> Result<(u64, bool)>) -> Result<u64> {
        self.check()?;
        self.executor.process.captures.check_unsafe()?;
        let process = &self.executor.process;
        let costs = process.machine.gpu(self.gpu());
        let mut cost = Lasting::us(0.0);
        let (address, mapped) = self.with_pools_trimmed(|| take(&mut lock(&self.heap), process))?;
        if mapped {
            cost.extend_us(costs.create_us + costs.map_us + costs.access_us);
        }
        process.counters(self.gpu()).allocs.fetch_add(1, Relaxed);
        Ok(address)
    }

    /// cuMemFree: waits for the context's work first.
    pub fn free(&self, address: u64) -> Result<()> {
        self.executor.process.captures.check_unsafe()?;
        self.drain()?;
        self.free_now(address)
    }

    /// Frees what cuMemAlloc gave, without waiting.
    pub(super) fn free_now(&self, address: u64) -> Result<()> {
        let process = &self.executor.process;
        let costs = process.machine.gpu(self.gpu());
        let mut cost = Lasting::us(0.0);
        if lock(&self.heap).free(process, address)? {
            cost.extend_us(costs.unmap_us + costs.release_us);
        }
        lock(&process.sync_memops).remove(&address);
        process.counters(self.gpu()).frees.fetch_add(1, Relaxed);
        Ok(())
    }

    /// The allocation around an address: start and size.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        lock(&self.heap).object(address)
    }

    /// cuMemHostAlloc.
    pub fn alloc_host(self: &Arc<Self>, len: usize, flags: u32) -> Result<usize> {
        self.check()?;
        self.executor.process.captures.check_unsafe()?;
        let start = host::allocate(len)?;
        let process = &self.executor.process;
        process
            .host_mut()
            .insert(HostKind::Allocated, start, len, flags, self.handle())?;
        Ok(start)
    }

    /// cuMemHostRegister.
    pub fn register_host(self: &Arc<Self>, start: usize, len: usize, flags: u32) -> Result<()> {
        self.check()?;
        self.executor.process.captures.check_unsafe()?;
        host::fault_in(start, len)?;
        let process = &self.executor.process;
        process
            .host_mut()
            .insert(HostKind::Registered, start, len, flags, self.handle())
    }
}

impl Driver {
    /// cuMemFreeHost, cuMemHostUnregister.
    pub fn remove_host(&self, start: usize, kind: HostKind) -> Result<()> {
        self.process.captures.check_unsafe()?;
        // Work that still uses it must not find it gone.
        for context in self.contexts.all() {
            // A broken context has no work left that could.
            let _ = context.drain();
        }
        self.process.host_mut().remove(start, kind)
    }

    /// The flags of the pinned memory around an address.
    pub fn host_flags(&self, address: usize) -> Result<u32> {
        self.process
            .host()
            .range(address)
            .map(|range| range.flags)
            .ok_or(Error::InvalidValue)
    }
}
