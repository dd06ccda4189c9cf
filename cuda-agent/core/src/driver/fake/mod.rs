//! A driver for tests: bytes in ordinary memory, and a precise idea of what is mapped. Copies are
//! done at once; a stream is busy for as long as the test says.

mod state;

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use state::{Map, Meanwhile, State};

use super::{Driver, Node, Result, Unfit};
use crate::cuda::{
    Access, AllocationProp, CaptureMode, Context, Event, Function, Graph, Handle, MemoryPool,
    Status, Stream,
};
use crate::gate::{Inside, lock, lock_briefly};

/// The fake's unit of physical memory.
pub(crate) const UNIT: u64 = 4096;

thread_local! {
    static CURRENT: Cell<Option<Context>> = const { Cell::new(Some(FakeDriver::CONTEXT)) };
}

/// One GPU, one context.
pub(crate) struct FakeDriver {
    pub(crate) uuid: [u8; 16],
    pub(crate) capacity: u64,
    state: Mutex<State>,
    subscriber: Mutex<Option<Subscriber>>,
}

/// Is told the name of a call, in the thread that makes it.
pub(crate) type Subscriber = Arc<dyn Fn(&'static str) + Send + Sync>;

/// As in fingerprint.ptx.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl FakeDriver {
    pub(crate) fn leak(uuid: [u8; 16], capacity: u64) -> &'static Self {
        Box::leak(Box::new(Self {
            uuid,
            capacity,
            state: Mutex::new(State {
                next: 1 << 40,
                ..State::default()
            }),
            subscriber: Mutex::default(),
        }))
    }

    /// The only kind of handle that it exports: a file descriptor.
    const SHAREABLE: u32 = 1;

    /// How the memory behind a handle was asked for, where a program asked.
    pub(crate) fn asked(&self, handle: u64) -> Option<AllocationProp> {
        lock(&self.state).asked.get(&handle).copied()
    }

    /// Submits work to a stream; whose number it is.
    pub(crate) fn submit(&self, stream: Stream) -> u64 {
        let mut state = lock(&self.state);
        let (submitted, _) = state.work.entry(stream).or_default();
        *submitted += 1;
        *submitted
    }

    /// A stream's work up to a number is done.
    pub(crate) fn complete(&self, stream: Stream, up_to: u64) {
        let mut state = lock(&self.state);
        let (submitted, done) = state.work.entry(stream).or_default();
        *done = up_to.min(*submitted).max(*done);
    }

    /// Work submitted to a stream and done by it.
    pub(crate) fn progress(&self, stream: Stream) -> (u64, u64) {
        let state = lock(&self.state);
        state.work.get(&stream).copied().unwrap_or_default()
    }

    /// Events made and not destroyed.
    pub(crate) fn events(&self) -> usize {
        lock(&self.state).events
    }

    /// Streams made and not destroyed.
    pub(crate) fn streams(&self) -> usize {
        lock(&self.state).streams
    }

    /// A context is destroyed: it cannot be made current any more.
    pub(crate) fn end_context(&self, context: Context) {
        lock(&self.state).gone.insert(context);
    }

    /// The pool that the GPU has from the beginning.
    pub(crate) const POOL: MemoryPool = MemoryPool(0xb0);

    /// The context that is current in each thread at first.
    pub(crate) const CONTEXT: Context = Context(0xc0);

    pub(crate) fn used(&self) -> u64 {
        let state = lock(&self.state);
        state
            .physical
            .values()
            .map(|bytes| bytes.len() as u64)
            .sum()
    }

    /// Whether a GPU may write at an address.
    pub(crate) fn may_write(&self, device: i32, at: u64) -> bool {
        let state = lock(&self.state);
        let mut maps = state.mapped_in(at, 1).into_iter();
        maps.any(|map| state.maps[&map].access.contains(&Access::full(device)))
    }

    pub(crate) fn add_graph(&self, graph: Graph, nodes: Vec<Node>) {
        lock(&self.state).graphs.insert(graph, nodes);
    }

    /// What launched graphs have reserved from now on.
    pub(crate) fn set_graph_memory(&self, bytes: u64) {
        lock(&self.state).graph_memory = bytes;
    }

    /// The current context is one of another GPU.
    pub(crate) fn set_current_device(&self, ordinal: i32) {
        lock(&self.state).current_device = ordinal;
    }

    /// Whether a handle has so many bytes of physical memory.
    pub(crate) fn is_live(&self, handle: u64, bytes: u64) -> bool {
        let state = lock(&self.state);
        let physical = state.physical.get(&handle);
        physical.is_some_and(|physical| physical.len() as u64 >= bytes)
    }

    /// Mappings of physical memory.
    pub(crate) fn mappings(&self) -> usize {
        lock(&self.state).maps.len()
    }

    pub(crate) fn set_busy(&self, stream: Stream, busy: bool) {
        let mut state = lock(&self.state);
        if busy {
            state.busy.insert(stream);
        } else {
            state.busy.remove(&stream);
        }
    }

    /// Makes a stream one that the legacy stream does not wait for.
    pub(crate) fn set_apart(&self, stream: Stream) {
        lock(&self.state).apart.insert(stream);
    }

    pub(crate) fn set_capturing(&self, stream: Stream, captures: bool) {
        let mut state = lock(&self.state);
        if captures {
            state.capturing.insert(stream);
        } else {
            state.capturing.remove(&stream);
        }
    }

    pub(crate) fn refuse_pins(&self) {
        lock(&self.state).refuse_pins = true;
    }

    pub(crate) fn fail_copies(&self, fail: bool) {
        lock(&self.state).fail_copies = fail;
    }

    /// From now on the `number`-th call, counted from 0, is refused: that one only.
    pub(crate) fn refuse_call(&self, number: usize) {
        let mut state = lock(&self.state);
        state.refuse = Some(state.calls + number);
        state.refused = None;
    }

    /// The name of the call that was refused.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        lock(&self.state).refused
    }

    /// Calls so far that might have been refused.
    pub(crate) fn calls(&self) -> usize {
        lock(&self.state).calls
    }

    /// Tells `subscriber` of calls from now on, as drivers tell profilers.
    pub(crate) fn subscribe(&self, subscriber: Option<Subscriber>) {
        *lock_briefly(&self.subscriber) = subscriber;
    }

    /// As `Libcuda` the thread is inside the agent in a call.
    fn tell(&self, name: &'static str) {
        thread_local! {
            static TELLING: Cell<bool> = const { Cell::new(false) };
        }
        let subscriber = lock_briefly(&self.subscriber).clone();
        if let Some(subscriber) = subscriber
            && !TELLING.replace(true)
        {
            let _inside = Inside::begin();
            subscriber(name);
            TELLING.set(false);
        }
    }

    fn may_refuse(&self, name: &'static str) -> Result<()> {
        self.tell(name);
        let mut state = lock(&self.state);
        let number = state.calls;
        state.calls += 1;
        if state.refuse == Some(number) {
            state.refused = Some(name);
            return Err(Status::UNKNOWN);
        }
        Ok(())
    }

    /// Bytes copied from the GPU, and to it.
    pub(crate) fn copied(&self) -> (u64, u64) {
        lock(&self.state).copied
    }

    /// Has `meanwhile` run once, before the next export.
    pub(crate) fn before_export(&self, meanwhile: Meanwhile) {
        lock(&self.state).before_export = Some(meanwhile);
    }

    /// The bytes behind a descriptor that was exported.
    pub(crate) fn exported(descriptor: impl AsFd) -> Result<Vec<u8>> {
        let size = rustix::fs::fstat(&descriptor).map_err(|_| Status::INVALID_VALUE)?;
        let mut bytes = vec![0; size.st_size as usize];
        let got = rustix::io::pread(descriptor, &mut bytes[..], 0);
        (got == Ok(bytes.len()))
            .then_some(bytes)
            .ok_or(Status::INVALID_VALUE)
    }

    /// What other processes hold.
    pub(crate) fn set_others(&self, bytes: u64) {
        lock(&self.state).others = bytes;
    }

    /// What a kernel does; an illegal address where nothing is mapped.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        lock(&self.state).access(at, bytes.len(), Access::READ_WRITE, |chunk, range| {
            let offset = range.start;
            chunk.copy_from_slice(&bytes[offset..range.end]);
        })
    }

    pub(crate) fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        lock(&self.state).access(at, len, Access::READ, |chunk, range| {
            bytes[range].copy_from_slice(chunk);
        })?;
        Ok(bytes)
    }
}

impl Driver for FakeDriver {
    fn device_count(&self) -> Result<i32> {
        Ok(1)
    }
    fn device_uuid(&self, _: i32) -> Result<[u8; 16]> {
        Ok(self.uuid)
    }
    fn device_memory(&self, _: i32) -> Result<u64> {
        Ok(self.capacity)
    }
    fn unfit(&self, _: i32) -> Result<Option<Unfit>> {
        Ok(None)
    }

    fn granularity(&self, _: i32) -> Result<u64> {
        Ok(UNIT)
    }
    fn current_context(&self) -> Result<Option<Context>> {
        self.tell("current_context");
        Ok(CURRENT.get())
    }
    fn set_context(&self, context: Option<Context>) -> Result<()> {
        if context.is_some_and(|context| lock(&self.state).gone.contains(&context)) {
            return Err(Status::INVALID_CONTEXT);
        }
        CURRENT.set(context);
        Ok(())
    }
    fn current_device(&self) -> Result<i32> {
        Ok(lock(&self.state).current_device)
    }
    fn synchronize(&self) -> Result<()> {
        self.may_refuse("synchronize")?;
        let captures = !lock(&self.state).capturing.is_empty();
        assert!(!captures, "a synchronization broke a capture");
        while !lock(&self.state).busy.is_empty() {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        Ok(())
    }
    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        Ok(mode)
    }
    fn reserve(&self, bytes: u64, align: u64) -> Result<u64> {
        self.may_refuse("reserve")?;
        let mut state = lock(&self.state);
        let at = state.next.next_multiple_of(align);
        state.next = at + bytes;
        Ok(at)
    }
    fn create(&self, _: i32, bytes: u64) -> Result<Handle> {
        self.may_refuse("create")?;
        if self.used() + lock(&self.state).others + bytes > self.capacity {
            return Err(Status::OUT_OF_MEMORY);
        }
        let mut state = lock(&self.state);
        // As drivers do whose handles are addresses of their own.
        let handle = state.released.pop().unwrap_or_else(|| state.fresh());
        // Never zeros: what an owner before left must not look right by chance.
        state.physical.insert(handle, vec![0xdb; bytes as usize]);
        Ok(Handle(handle))
    }
    /// A kind of handle that this GPU does not have is refused, as without a fabric.
    fn create_as(&self, prop: &AllocationProp, bytes: u64) -> Result<Handle> {
        if prop.handle_types & !Self::SHAREABLE != 0 {
            return Err(Status::NOT_PERMITTED);
        }
        let handle = self.create(prop.location.id, bytes)?;
        lock(&self.state).asked.insert(handle.0, *prop);
        Ok(handle)
    }
    fn map(&self, at: u64, bytes: u64, handle: Handle) -> Result<()> {
        self.may_refuse("map")?;
        let mut state = lock(&self.state);
        let physical = state.physical.get(&handle.0).ok_or(Status::INVALID_VALUE)?;
        if (physical.len() as u64) < bytes || !state.mapped_in(at, bytes).is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        let (handle, access) = (handle.0, Vec::new());
        let map = Map {
            bytes,
            handle,
            access,
        };
        state.maps.insert(at, map);
        Ok(())
    }
    fn set_access(&self, at: u64, bytes: u64, access: &[Access]) -> Result<()> {
        self.may_refuse("set_access")?;
        let mut state = lock(&self.state);
        for map in state.whole(at, bytes)? {
            let old = state.maps.get_mut(&map).expect("just found");
            for given in access {
                old.access.retain(|it| it.location != given.location);
                old.access.push(*given);
            }
        }
        Ok(())
    }
    fn unmap(&self, at: u64, bytes: u64) -> Result<()> {
        self.may_refuse("unmap")?;
        let mut state = lock(&self.state);
        assert!(state.busy.is_empty(), "unmapped under running work");
        for map in state.whole(at, bytes)? {
            state.maps.remove(&map);
        }
        Ok(())
    }
    fn release(&self, handle: Handle) -> Result<()> {
        self.may_refuse("release")?;
        let mut state = lock(&self.state);
        assert!(
            !state.maps.values().any(|map| map.handle == handle.0),
            "released while mapped"
        );
        state
            .physical
            .remove(&handle.0)
            .ok_or(Status::INVALID_VALUE)?;
        state.asked.remove(&handle.0);
        state.released.push(handle.0);
        Ok(())
    }
    fn can_export(&self, _: i32) -> bool {
        true
    }
    fn export(&self, handle: Handle) -> Result<OwnedFd> {
        let meanwhile = lock(&self.state).before_export.take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let state = lock(&self.state);
        let bytes = state.physical.get(&handle.0).ok_or(Status::INVALID_VALUE)?;
        // A copy: enough to see that the right memory came, whatever becomes of the handle.
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("fake", flags).map_err(|_| Status::UNKNOWN)?;
        let put = rustix::io::pwrite(&file, bytes, 0);
        (put == Ok(bytes.len()))
            .then_some(file)
            .ok_or(Status::UNKNOWN)
    }
    fn import(&self, descriptor: BorrowedFd<'_>) -> Result<Handle> {
        let bytes = Self::exported(descriptor)?;
        let mut state = lock(&self.state);
        let new = state.fresh();
        state.physical.insert(new, bytes);
        Ok(Handle(new))
    }
    fn unreserve(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
    fn pin(&self, bytes: u64) -> Result<usize> {
        let mut state = lock(&self.state);
        if state.refuse_pins {
            return Err(Status::OUT_OF_MEMORY);
        }
        let memory = vec![0; bytes as usize];
        let host = memory.as_ptr().expose_provenance();
        state.pinned.insert(host, memory);
        Ok(host)
    }
    fn unpin(&self, host: usize) -> Result<()> {
        lock(&self.state)
            .pinned
            .remove(&host)
            .map(|_| ())
            .ok_or(Status::INVALID_VALUE)
    }
    unsafe fn copy_in(&self, to: u64, host: usize, bytes: u64, _: Stream) -> Result<()> {
        self.may_refuse("copy_in")?;
        let mut state = lock(&self.state);
        if state.fail_copies {
            return Err(Status(719));
        }
        let slot = state.slot(host, bytes).to_vec();
        state.copied.1 += bytes;
        state.access(to, slot.len(), Access::READ_WRITE, |chunk, range| {
            chunk.copy_from_slice(&slot[range]);
        })
    }
    unsafe fn copy_out(&self, host: usize, from: u64, bytes: u64, _: Stream) -> Result<()> {
        self.may_refuse("copy_out")?;
        let mut state = lock(&self.state);
        if state.fail_copies {
            return Err(Status(719));
        }
        let mut copy = vec![0; bytes as usize];
        state.access(from, copy.len(), Access::READ, |chunk, range| {
            copy[range].copy_from_slice(chunk);
        })?;
        state.copied.0 += bytes;
        state.slot(host, bytes).copy_from_slice(&copy);
        Ok(())
    }
    fn copy_within(&self, to: u64, from: u64, bytes: u64, _: Stream) -> Result<()> {
        self.may_refuse("copy_within")?;
        if lock(&self.state).fail_copies {
            return Err(Status(719));
        }
        let bytes = self.read(from, bytes as usize)?;
        self.write(to, &bytes)
    }
    fn load(&self, image: &CStr, name: &CStr) -> Result<Function> {
        let text = image.to_str().expect("an image of text");
        assert!(text.contains(&format!(".entry {}(", name.to_str().expect("a name"))));
        Ok(Function(1))
    }
    /// The one kernel: fingerprint.ptx.
    unsafe fn launch(
        &self,
        _: Function,
        _: (u32, u32),
        arguments: &[u64],
        _: Stream,
    ) -> Result<()> {
        let &[out, data, words, first, low, high] = arguments else {
            return Err(Status::INVALID_VALUE);
        };
        let mut sums = [0; 2];
        let read = self.read(data, words as usize * 8)?;
        for (index, word) in read.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            for (sum, key) in sums.iter_mut().zip([low, high]) {
                let place = mix(key.wrapping_add(first).wrapping_add(index as u64));
                *sum = mix(place ^ word).wrapping_add(*sum);
            }
        }
        let before = self.read(out, 16)?;
        for (at, sum) in sums.into_iter().enumerate() {
            let old = before[8 * at..][..8].try_into().expect("eight bytes");
            let sum = sum.wrapping_add(u64::from_le_bytes(old));
            self.write(out + 8 * at as u64, &sum.to_le_bytes())?;
        }
        Ok(())
    }
    fn create_stream(&self) -> Result<Stream> {
        self.may_refuse("create_stream")?;
        let mut state = lock(&self.state);
        state.streams += 1;
        Ok(Stream(state.fresh() as usize))
    }
    fn destroy_stream(&self, _: Stream) -> Result<()> {
        lock(&self.state).streams -= 1;
        Ok(())
    }
    fn stream_done(&self, stream: Stream) -> bool {
        self.tell("stream_done");
        let state = lock(&self.state);
        assert!(state.capturing.is_empty(), "a query broke a capture");
        !state.busy.contains(&stream)
    }
    fn stream_context(&self, _: Stream) -> Result<Context> {
        self.tell("stream_context");
        Ok(Self::CONTEXT)
    }
    fn current_pool(&self, _: i32) -> Result<MemoryPool> {
        Ok(Self::POOL)
    }
    fn default_pool(&self, _: i32) -> Result<MemoryPool> {
        Ok(Self::POOL)
    }
    fn graph_memory(&self, _: i32) -> Result<u64> {
        Ok(lock(&self.state).graph_memory)
    }
    fn graph_nodes(&self, graph: Graph) -> Result<Vec<Node>> {
        let state = lock(&self.state);
        state.graphs.get(&graph).cloned().ok_or(Status::NOT_FOUND)
    }
    fn stream_captures(&self, stream: Stream) -> bool {
        lock(&self.state).capturing.contains(&stream)
    }
    fn create_event(&self) -> Result<Event> {
        self.may_refuse("create_event")?;
        let mut state = lock(&self.state);
        state.events += 1;
        Ok(Event(state.fresh() as usize))
    }
    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        self.may_refuse("record")?;
        let mut state = lock(&self.state);
        if let Some(&(submitted, _)) = state.work.get(&stream) {
            state.recorded.insert(event, (stream, submitted));
        }
        Ok(())
    }
    fn event_done(&self, event: Event) -> bool {
        self.tell("event_done");
        let state = lock(&self.state);
        match state.recorded.get(&event) {
            Some((stream, number)) => state.work[stream].1 >= *number,
            None => state.busy.is_subset(&state.apart),
        }
    }
    fn wait_event(&self, _: Event) -> Result<()> {
        self.may_refuse("wait_event")
    }
    fn destroy_event(&self, event: Event) -> Result<()> {
        let mut state = lock(&self.state);
        state.events -= 1;
        state.recorded.remove(&event);
        Ok(())
    }
}
