//! Events: marks in the order of a stream, or places in a capture.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};

use super::capture::Capture;
use super::context::Context;
use super::fence::Fence;
use super::graph::{NodeId, Op};
use super::interprocess::{Arrival, Interprocess, arrive};
use super::ipc::HANDLE_BYTES;
use super::lock;
use super::stream::Stream;
use super::work::{HostCall, Work};
use crate::{Error, Result};

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;
/// CU_EVENT_INTERPROCESS, which needs it.
const INTERPROCESS: u32 = 4;
/// All flags, CU_EVENT_BLOCKING_SYNC among them.
const FLAGS: u32 = 7;

/// An event.
pub struct Event {
    flags: u32,
    recorded: Mutex<Option<Recorded>>,
    /// What it shares with other processes.
    shared: Option<Arc<Interprocess>>,
}

/// What it was recorded as last.
#[derive(Clone)]
enum Recorded {
    Mark(Mark),
    /// In a capture: nothing to wait for, only to come after.
    Captured(Arc<Capture>, Vec<NodeId>),
}

/// A recorded mark, and the context that may break before it is reached.
#[derive(Clone)]
struct Mark {
    fence: Arc<Fence>,
    context: Weak<Context>,
}

impl Event {
    /// cuEventCreate; flags that are not the driver's are refused.
    pub fn new(flags: u32) -> Result<Arc<Self>> {
        let is_shared = flags & INTERPROCESS != 0;
        if flags & !FLAGS != 0 || is_shared && flags & DISABLE_TIMING == 0 {
            return Err(Error::InvalidValue);
        }
        let shared = is_shared.then(Interprocess::new).transpose()?;
        Ok(Self::of(flags, shared))
    }

    /// cuIpcOpenEventHandle: an event of another process.
    pub fn open(handle: &[u8; HANDLE_BYTES]) -> Result<Arc<Self>> {
        let shared = Interprocess::open(handle)?;
        Ok(Self::of(INTERPROCESS | DISABLE_TIMING, Some(shared)))
    }

    fn of(flags: u32, shared: Option<Arc<Interprocess>>) -> Arc<Self> {
        Arc::new(Self {
            flags,
            recorded: Mutex::default(),
            shared,
        })
    }

    /// cuIpcGetEventHandle; [`Error::InvalidHandle`] for an event of this process alone.
    pub fn ipc_handle(&self) -> Result<[u8; HANDLE_BYTES]> {
        let shared = self.shared.as_ref().ok_or(Error::InvalidHandle)?;
        Ok(shared.handle())
    }

    /// Marks the place that the stream has got to.
    pub fn record(&self, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        context.counters().event_records.fetch_add(1, Relaxed);
        let recorded = if let Some(capture) = context.capture_of(stream)? {
            let tips = capture.tips(stream)?;
            Recorded::Captured(capture, tips)
        } else {
            if let Some(shared) = &self.shared {
                let call = HostCall::Callback(arrive, 0, Arrival::begin(shared));
                context.submit(stream, Work::HostCall(call), None)?;
            }
            Recorded::Mark(Mark {
                fence: context.mark(stream, None)?,
                context: Arc::downgrade(&context),
            })
        };
        *lock(&self.recorded) = Some(recorded);
        Ok(())
    }

    /// As [`Event::record`], but in a capture a node that records the event
    /// whenever the graph is launched (CU_EVENT_RECORD_EXTERNAL).
    pub fn record_external(self: &Arc<Self>, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        match context.capture_of(stream)? {
            Some(capture) => capture.record(stream, Op::Record(self.clone())).map(drop),
            // Outside of captures there is no such thing.
            None => Err(Error::InvalidValue),
        }
    }

    /// Lets a stream's later work wait for the mark.
    pub fn hold_back(&self, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        context.counters().stream_waits.fetch_add(1, Relaxed);
        if let Some(shared) = self.shared.as_ref().filter(|_| !self.is_captured()) {
            if context.capture_of(stream)?.is_some() {
                return Err(Error::StreamCaptureIsolation);
            }
            let record = shared.last();
            if !shared.is_reached(record) {
                context.mark(stream, Some(shared.fence(record)))?;
            }
            return Ok(());
        }
        match self.last() {
            Some(Recorded::Captured(capture, tips)) => {
                context.follow_capture(stream, &capture, &tips)
            }
            Some(Recorded::Mark(_)) => {
                if let Some(capture) = context.capture_of(stream)? {
                    // A graph cannot wait for what is outside of it.
                    capture.invalidate();
                    return Err(Error::StreamCaptureIsolation);
                }
                self.hold_back_now(&context, stream)
            }
            None => Ok(()),
        }
    }

    /// As [`Event::hold_back`], but in a capture a node that waits for the
    /// event whenever the graph is launched (CU_EVENT_WAIT_EXTERNAL).
    pub fn hold_back_external(self: &Arc<Self>, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        match context.capture_of(stream)? {
            Some(capture) => capture.record(stream, Op::Wait(self.clone())).map(drop),
            None => Err(Error::InvalidValue),
        }
    }

    /// Lets a stream's work from now on wait for the mark, if there is one.
    pub(super) fn hold_back_now(&self, context: &Context, stream: &Stream) -> Result<()> {
        if let Some(Recorded::Mark(mark)) = self.last()
            && mark.fence.end_ns().is_none()
        {
            context.mark(stream, Some(mark.fence))?;
        }
        Ok(())
    }

    /// Recorded by a graph.
    pub(super) fn set_mark(&self, context: &Arc<Context>, fence: Arc<Fence>) {
        let context = Arc::downgrade(context);
        *lock(&self.recorded) = Some(Recorded::Mark(Mark { fence, context }));
    }

    /// cuEventQuery: whether the mark is reached. An event never recorded is;
    /// [`Error::NotReady`] if not.
    pub fn query(&self) -> Result<()> {
        if let Some(shared) = &self.shared
            && !self.is_captured()
        {
            let reached = shared.is_reached(shared.last());
            return if reached {
                Ok(())
            } else {
                Err(Error::NotReady)
            };
        }
        let Some(mark) = self.mark()? else {
            return Ok(());
        };
        if let Some(context) = mark.context.upgrade() {
            context.executor.process.captures.check_unsafe()?;
            context.counters().queries.fetch_add(1, Relaxed);
        }
        match mark.fence.end_ns() {
            None => Err(Error::NotReady),
            Some(_) => mark.check(),
        }
    }

    /// cuEventSynchronize: waits for the mark.
    pub fn wait(&self) -> Result<()> {
        if let Some(shared) = &self.shared
            && !self.is_captured()
        {
            shared.wait(shared.last());
        }
        let Some(mark) = self.mark()? else {
            return Ok(());
        };
        let context = mark.context.upgrade();
        if let Some(context) = &context {
            context.executor.process.captures.check_unsafe()?;
            context.counters().event_syncs.fetch_add(1, Relaxed);
        }
        mark.fence.wait();
        if let Some(context) = context {
            context.settle_pools();
        }
        mark.check()
    }

    /// From `start` to this event, ms.
    pub fn elapsed_ms(&self, start: &Self) -> Result<f32> {
        if (self.flags | start.flags) & DISABLE_TIMING != 0 {
            return Err(Error::InvalidHandle);
        }
        let end_ns = |event: &Self| {
            let mark = event.mark()?.ok_or(Error::InvalidHandle)?;
            mark.fence.end_ns().ok_or(Error::NotReady)
        };
        Ok((end_ns(self)? as f64 - end_ns(start)? as f64) as f32 / 1e6)
    }

    fn is_captured(&self) -> bool {
        matches!(&*lock(&self.recorded), Some(Recorded::Captured(..)))
    }

    fn last(&self) -> Option<Recorded> {
        lock(&self.recorded).clone()
    }

    /// The mark; an event recorded in a capture has none, and asking breaks that.
    fn mark(&self) -> Result<Option<Mark>> {
        match self.last() {
            Some(Recorded::Mark(mark)) => Ok(Some(mark)),
            Some(Recorded::Captured(capture, _)) => {
                capture.invalidate();
                Err(Error::CapturedEvent)
            }
            None => Ok(None),
        }
    }
}

impl Mark {
    fn check(&self) -> Result<()> {
        self.context
            .upgrade()
            .map_or(Ok(()), |context| context.check())
    }
}
