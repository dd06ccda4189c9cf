//! Stream capture: what is asked of a stream becomes nodes of a graph.
//!
//! A capture starts on one stream and spreads over events to others, which
//! have to be joined again before it ends. What cannot be recorded, or would
//! wait for recorded work, is refused and breaks the capture.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::graph::{Graph, NodeId, Op};
use super::lock;
use super::process::Process;
use super::stream::Stream;
use crate::{Error, Result};

/// CUstreamCaptureMode: whom a capture forbids calls that might wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureMode {
    /// All threads that are not relaxed.
    Global,
    /// The thread that captures.
    ThreadLocal,
    /// Nobody.
    Relaxed,
}

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// cuThreadExchangeStreamCaptureMode.
pub fn exchange_capture_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// What a program may know of a stream's capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Unique in the process.
    pub id: u64,
    /// Whether nothing has broken it.
    pub is_valid: bool,
    /// Handle of the graph.
    pub graph: usize,
    /// Whether the graph was made for the capture.
    pub is_own_graph: bool,
    /// What the stream's next node will come after.
    pub tips: Vec<NodeId>,
}

/// A capture in progress.
pub(crate) struct Capture {
    id: u64,
    mode: CaptureMode,
    thread: ThreadId,
    graph: Arc<Graph>,
    is_own_graph: bool,
    /// Id of the stream on which it started.
    origin: u64,
    state: Mutex<State>,
}

/// The streams that take part, each with what its next node comes after.
type Members = BTreeMap<u64, (Weak<Stream>, Vec<NodeId>)>;

struct State {
    is_valid: bool,
    is_over: bool,
    streams: Members,
}

/// All captures of the process.
#[derive(Default)]
pub(crate) struct Captures {
    count: AtomicUsize,
    all: Mutex<Vec<Arc<Capture>>>,
}

impl Captures {
    /// Fails, and breaks who forbids it, if a call that may wait for the GPU
    /// is forbidden to the calling thread.
    pub(crate) fn check_unsafe(&self) -> Result<()> {
        if self.count.load(Acquire) == 0 || MODE.get() == CaptureMode::Relaxed {
            return Ok(());
        }
        let me = thread::current().id();
        let mode = MODE.get();
        let forbids = |capture: &&Arc<Capture>| {
            let own = capture.thread == me && capture.mode != CaptureMode::Relaxed;
            own || mode == CaptureMode::Global && capture.mode == CaptureMode::Global
        };
        let all = lock(&self.all);
        let mut allowed = true;
        for capture in all.iter().filter(forbids) {
            capture.invalidate();
            allowed = false;
        }
        if allowed {
            Ok(())
        } else {
            Err(Error::StreamCaptureUnsupported)
        }
    }
}

impl Process {
    fn remove_capture(&self, capture: &Arc<Capture>) {
        lock(&self.captures.all).retain(|other| !Arc::ptr_eq(other, capture));
        self.captures.count.fetch_sub(1, AcqRel);
    }
}

impl Capture {
    /// Adds a node at the end of what a stream has recorded.
    pub(crate) fn record(&self, stream: &Stream, op: Op) -> Result<NodeId> {
        let mut state = lock(&self.state);
        if !state.is_valid {
            return Err(Error::StreamCaptureInvalidated);
        }
        let (_, tips) = state
            .streams
            .get_mut(&stream.id)
            .ok_or(Error::IllegalState)?;
        let node = self.graph.add(op, tips)?;
        *tips = vec![node];
        Ok(node)
    }

    /// Whatever is asked of it from now on fails, until it is ended.
    pub(crate) fn invalidate(&self) {
        lock(&self.state).is_valid = false;
    }

    /// What a stream's next node would come after.
    pub(super) fn tips(&self, stream: &Stream) -> Result<Vec<NodeId>> {
        let state = lock(&self.state);
        if !state.is_valid {
            return Err(Error::StreamCaptureInvalidated);
        }
        let known = state.streams.get(&stream.id);
        Ok(known.map(|(_, tips)| tips.clone()).unwrap_or_default())
    }

    /// Lets a stream's next node come after more; the stream joins if it is new.
    fn join(self: &Arc<Self>, stream: &Arc<Stream>, after: &[NodeId]) -> Result<()> {
        let mut state = lock(&self.state);
        if state.is_over {
            return Err(Error::CapturedEvent);
        }
        if !state.is_valid {
            return Err(Error::StreamCaptureInvalidated);
        }
        let place = || (Arc::downgrade(stream), Vec::new());
        let (_, tips) = state.streams.entry(stream.id).or_insert_with(place);
        for node in after {
            if !tips.contains(node) {
                tips.push(*node);
            }
        }
        *lock(&stream.capture) = Some(self.clone());
        Ok(())
    }

    fn end(&self) -> (bool, Members) {
        let mut state = lock(&self.state);
        state.is_over = true;
        (state.is_valid, std::mem::take(&mut state.streams))
    }
}

impl Context {
    /// The capture that a stream takes part in. The legacy stream would have to
    /// wait for capturing streams, and so cannot be used meanwhile.
    pub(super) fn capture_of(&self, stream: &Stream) -> Result<Option<Arc<Capture>>> {
        if self.executor.process.captures.count.load(Acquire) == 0 {
            return Ok(None);
        }
        if std::ptr::eq(stream, &raw const **self.legacy_stream()) {
            let broken = self.invalidate_captures(Stream::is_blocking);
            return if broken {
                Err(Error::StreamCaptureImplicit)
            } else {
                Ok(None)
            };
        }
        Ok(lock(&stream.capture).clone())
    }

    /// Breaks the captures of the context's streams that `of` agrees to.
    pub(super) fn invalidate_captures(&self, of: impl Fn(&Stream) -> bool) -> bool {
        let mut any = false;
        for stream in lock(&self.streams).iter().filter(|stream| of(stream)) {
            if let Some(capture) = lock(&stream.capture).as_ref() {
                capture.invalidate();
                any = true;
            }
        }
        any
    }

    /// Fails, and breaks the capture, if a stream captures: what is only
    /// recorded cannot be waited for or asked about.
    pub(super) fn check_not_capturing(&self, stream: &Stream) -> Result<()> {
        if let Some(capture) = self.capture_of(stream)? {
            capture.invalidate();
            return Err(Error::StreamCaptureUnsupported);
        }
        self.executor.process.captures.check_unsafe()
    }

    /// cuStreamBeginCapture, into a new graph or behind nodes of one.
    pub fn begin_capture(
        &self,
        stream: &Arc<Stream>,
        mode: CaptureMode,
        into: Option<(Arc<Graph>, &[NodeId])>,
    ) -> Result<Arc<Graph>> {
        self.check()?;
        if Arc::ptr_eq(stream, self.legacy_stream()) {
            return Err(Error::StreamCaptureUnsupported);
        }
        let is_own_graph = into.is_none();
        let (graph, after) = into.unwrap_or_else(|| (Graph::new(), &[]));
        if !after.iter().all(|node| graph.contains(*node)) {
            return Err(Error::InvalidValue);
        }
        let mut place = lock(&stream.capture);
        if place.is_some() {
            return Err(Error::IllegalState);
        }
        let capture = Arc::new(Capture {
            id: super::context::next_id(),
            mode,
            thread: thread::current().id(),
            graph: graph.clone(),
            is_own_graph,
            origin: stream.id,
            state: Mutex::new(State {
                is_valid: true,
                is_over: false,
                streams: BTreeMap::from([(stream.id, (Arc::downgrade(stream), after.to_vec()))]),
            }),
        });
        *place = Some(capture.clone());
        drop(place);
        let captures = &self.executor.process.captures;
        lock(&captures.all).push(capture);
        captures.count.fetch_add(1, AcqRel);
        Ok(graph)
    }

    /// cuStreamEndCapture: the graph, if nothing has broken the capture.
    pub fn end_capture(&self, stream: &Stream) -> Result<Arc<Graph>> {
        let capture = lock(&stream.capture).clone().ok_or(Error::IllegalState)?;
        if capture.origin != stream.id {
            capture.invalidate();
            return Err(Error::StreamCaptureUnmatched);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != thread::current().id() {
            return Err(Error::StreamCaptureWrongThread);
        }
        let (is_valid, streams) = capture.end();
        for (member, _) in streams.values() {
            if let Some(member) = member.upgrade() {
                *lock(&member.capture) = None;
            }
        }
        *lock(&stream.capture) = None;
        self.executor.process.remove_capture(&capture);
        if !is_valid {
            return Err(Error::StreamCaptureInvalidated);
        }
        let tips = |id: &u64| streams.get(id).map_or(&[][..], |(_, tips)| &tips[..]);
        let joined = capture.graph.ancestors(tips(&stream.id));
        let loose = |id: &u64| tips(id).iter().any(|node| !joined.contains(node));
        if streams.keys().any(loose) {
            return Err(Error::StreamCaptureUnjoined);
        }
        Ok(capture.graph.clone())
    }

    /// A stream that may capture is about to go. Without the one on which it started nobody can end a
    /// capture any more.
    pub(super) fn leave_capture(&self, stream: &Stream) {
        let Some(capture) = lock(&stream.capture).clone() else {
            return;
        };
        capture.invalidate();
        if capture.origin != stream.id {
            return;
        }
        let (_, streams) = capture.end();
        for (member, _) in streams.values() {
            if let Some(member) = member.upgrade() {
                *lock(&member.capture) = None;
            }
        }
        *lock(&stream.capture) = None;
        self.executor.process.remove_capture(&capture);
    }

    /// cuStreamGetCaptureInfo; none if the stream does not capture.
    pub fn capture_info(&self, stream: &Stream) -> Result<Option<CaptureInfo>> {
        let legacy = std::ptr::eq(stream, &raw const **self.legacy_stream());
        let captures =
            |stream: &Arc<Stream>| stream.is_blocking() && lock(&stream.capture).is_some();
        if legacy && lock(&self.streams).iter().any(captures) {
            return Err(Error::StreamCaptureImplicit);
        }
        let Some(capture) = lock(&stream.capture).clone() else {
            return Ok(None);
        };
        let state = lock(&capture.state);
        let tips = state.streams.get(&stream.id);
        Ok(Some(CaptureInfo {
            id: capture.id,
            is_valid: state.is_valid,
            graph: super::table::handle_of(&capture.graph),
            is_own_graph: capture.is_own_graph,
            tips: tips.map(|(_, tips)| tips.clone()).unwrap_or_default(),
        }))
    }

    /// cuStreamUpdateCaptureDependencies: more for the next node to come after,
    /// or others instead.
    pub fn set_capture_tips(&self, stream: &Stream, nodes: &[NodeId], instead: bool) -> Result<()> {
        let capture = lock(&stream.capture).clone().ok_or(Error::IllegalState)?;
        if !nodes.iter().all(|node| capture.graph.contains(*node)) {
            return Err(Error::InvalidValue);
        }
        let mut state = lock(&capture.state);
        if !state.is_valid {
            return Err(Error::StreamCaptureInvalidated);
        }
        let place = state.streams.get_mut(&stream.id);
        let (_, tips) = place.ok_or(Error::IllegalState)?;
        if instead {
            tips.clear();
        }
        tips.extend(nodes);
        tips.sort_unstable();
        tips.dedup();
        Ok(())
    }

    /// A stream waits for an event that was recorded in a capture.
    pub(super) fn follow_capture(
        &self,
        stream: &Arc<Stream>,
        capture: &Arc<Capture>,
        tips: &[NodeId],
    ) -> Result<()> {
        if Arc::ptr_eq(stream, self.legacy_stream()) {
            capture.invalidate();
            return Err(Error::StreamCaptureImplicit);
        }
        let other = lock(&stream.capture).clone();
        if let Some(other) = other.filter(|other| !Arc::ptr_eq(other, capture)) {
            capture.invalidate();
            other.invalidate();
            return Err(Error::StreamCaptureMerge);
        }
        capture.join(stream, tips)
    }
}
