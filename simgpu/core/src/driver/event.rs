//! Events: marks in the order of a stream, or places in a capture.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};

use super::capture::Capture;
use super::context::Context;
use super::fence::Fence;
use super::graph::{NodeId, Op};
use super::lock;
use super::stream::Stream;
use crate::{Error, Result};

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;

/// An event.
pub struct Event {
    flags: u32,
    recorded: Mutex<Option<Recorded>>,
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
        // Blocking sync, disable timing, interprocess (which needs the former).
        match flags {
            0..=3 => Ok(Arc::new(Self {
                flags,
                recorded: Mutex::default(),
            })),
            4..=7 => Err(Error::NotSupported),
            _ => Err(Error::InvalidValue),
        }
    }

    /// Marks the place that the stream has got to.
    pub fn record(&self, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        context.counters().event_records.fetch_add(1, Relaxed);
        let recorded = if let Some(capture) = context.capture_of(stream)? {
            let tips = capture.tips(stream)?;
            Recorded::Captured(capture, tips)
        } else {
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
