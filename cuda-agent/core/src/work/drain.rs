//! Whether the work of a GPU is done.

use std::time::{Duration, Instant};

use super::{Known, Work, in_context, relaxed};
use crate::cuda::Stream;
use crate::gate::{self, lock};

/// How long the last barrier of [`Work::is_done`] may take to pass an idle GPU.
const BARRIER_BOUND: Duration = Duration::from_micros(500);
/// A look at what goes on costs this part of the time waited so far.
const PART: u32 = 16;
/// Between two looks, at least and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));

impl Work {
    /// Whether all streams that can be asked without a barrier are done. Cheap. While a stream
    /// captures none is asked, for that would break the capture.
    pub fn looks_done(&self, device: i32) -> bool {
        let mut known = self.caught_up();
        !self.captures_in(&mut known) && self.streams_done(&mut known, device)
    }

    /// After [`Self::wait_done`], while nothing can be begun: the streams need not be asked again
    /// before the next call on them, which says so. Not earlier, because a call that was let through
    /// notes its stream before it puts its work there.
    pub fn settle(&self, device: i32) {
        gate::forget_streams();
        let mut known = lock(&self.known);
        let here = known.streams.values_mut();
        here.filter(|stream| stream.device == device)
            .for_each(|stream| stream.touched = false);
    }

    /// Waits until all work on the GPU is done, at most `bound`. With its gate closed; calls may go
    /// on that a host function needs, or that it makes itself.
    pub fn wait_done(&self, device: i32, gate: u64, bound: Duration) -> bool {
        // No thread takes it for granted any more that a stream is marked.
        gate::forget_streams();
        relaxed(self.driver, || self.wait_until_done(device, gate, bound))
    }

    fn wait_until_done(&self, device: i32, gate: u64, bound: Duration) -> bool {
        let start = Instant::now();
        loop {
            // What a host function that ran meanwhile began may be on a stream asked before it.
            let before = gate::ended_host_calls(gate);
            if before.is_some() && self.is_done(device) && gate::ended_host_calls(gate) == before {
                return true;
            }
            let waited = start.elapsed();
            if waited >= bound {
                return false;
            }
            std::thread::sleep((waited / PART).clamp(PAUSES.0, PAUSES.1));
        }
    }

    /// Whether all work on the GPU is done, if none is added and no stream captures.
    ///
    /// The per-thread streams of other threads cannot be asked: an event on the legacy stream
    /// waits for them, and an idle GPU passes it at once.
    fn is_done(&self, device: i32) -> bool {
        let _whole = lock(&self.draining);
        if !self.looks_done(device) {
            return false;
        }
        let driver = self.driver;
        self.contexts_on(device).into_iter().all(|context| {
            let passed = in_context(driver, context, || {
                let event = match self.barrier_of(context) {
                    Some(event) => event,
                    None => driver.create_event()?,
                };
                self.keep_barrier(context, event);
                driver.record(event, Stream::LEGACY)?;
                let start = Instant::now();
                while !driver.event_done(event) {
                    if start.elapsed() > BARRIER_BOUND {
                        return Ok(false);
                    }
                    std::thread::sleep(PAUSES.0);
                }
                Ok(true)
            });
            // A context that fails has no work left.
            passed.unwrap_or(true)
        })
    }

    /// Whether the streams that were worked on are done.
    fn streams_done(&self, known: &mut Known, device: i32) -> bool {
        let driver = self.driver;
        let Known {
            contexts,
            streams,
            leftovers,
            ..
        } = known;
        let contexts_done = contexts
            .iter()
            .filter(|other| other.device == device)
            .all(|known| {
                let context = known.context;
                let done = in_context(driver, context, || {
                    leftovers.retain(|&(of, event)| {
                        if of != context || !driver.event_done(event) {
                            return true;
                        }
                        let _ = driver.destroy_event(event);
                        false
                    });
                    Ok(leftovers.iter().all(|(of, _)| *of != context)
                        && driver.stream_done(Stream::LEGACY))
                });
                done.unwrap_or(true)
            });
        // Each in its own context: that of a green one is not among those that were made.
        contexts_done
            && streams
                .iter()
                .filter(|(stream, known)| {
                    known.device == device && known.touched && stream.is_created()
                })
                .all(|(&stream, known)| {
                    let done = in_context(driver, known.context, || Ok(driver.stream_done(stream)));
                    done.unwrap_or(true)
                })
    }
}
