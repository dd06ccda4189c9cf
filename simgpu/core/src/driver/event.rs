//! Events: marks in the order of a stream.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};

use super::context::Context;
use super::fence::Fence;
use super::lock;
use super::stream::Stream;
use crate::{Error, Result};

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;

/// An event.
pub struct Event {
    flags: u32,
    recorded: Mutex<Option<Mark>>,
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
        let fence = context.mark(stream, None)?;
        *lock(&self.recorded) = Some(Mark {
            fence,
            context: Arc::downgrade(&context),
        });
        Ok(())
    }

    /// Lets a stream's later work wait for the mark.
    pub fn hold_back(&self, stream: &Arc<Stream>) -> Result<()> {
        let context = stream.context()?;
        context.counters().stream_waits.fetch_add(1, Relaxed);
        let mark = lock(&self.recorded).clone();
        if let Some(mark) = mark.filter(|mark| mark.fence.end_ns().is_none()) {
            context.mark(stream, Some(mark.fence))?;
        }
        Ok(())
    }

    /// cuEventQuery: whether the mark is reached. An event never recorded is;
    /// [`Error::NotReady`] if not.
    pub fn query(&self) -> Result<()> {
        let recorded = lock(&self.recorded);
        if let Some(context) = recorded.as_ref().and_then(|mark| mark.context.upgrade()) {
            context.counters().queries.fetch_add(1, Relaxed);
        }
        match recorded.as_ref() {
            Some(mark) if mark.fence.end_ns().is_none() => Err(Error::NotReady),
            Some(mark) => mark.check(),
            None => Ok(()),
        }
    }

    /// cuEventSynchronize: waits for the mark.
    pub fn wait(&self) -> Result<()> {
        let mark = lock(&self.recorded).clone();
        mark.map_or(Ok(()), |mark| {
            mark.fence.wait();
            if let Some(context) = mark.context.upgrade() {
                context.counters().event_syncs.fetch_add(1, Relaxed);
                context.settle_pools();
            }
            mark.check()
        })
    }

    /// From `start` to this event, ms.
    pub fn elapsed_ms(&self, start: &Self) -> Result<f32> {
        if (self.flags | start.flags) & DISABLE_TIMING != 0 {
            return Err(Error::InvalidHandle);
        }
        let end_ns = |event: &Self| {
            let mark = lock(&event.recorded).clone().ok_or(Error::InvalidHandle)?;
            mark.fence.end_ns().ok_or(Error::NotReady)
        };
        Ok((end_ns(self)? as f64 - end_ns(start)? as f64) as f32 / 1e6)
    }
}

impl Mark {
    fn check(&self) -> Result<()> {
        self.context
            .upgrade()
            .map_or(Ok(()), |context| context.check())
    }
}
