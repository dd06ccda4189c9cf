//! What the program has in flight: its contexts and streams, and whether they are done.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::cuda::{Context, Event, Stream};
use crate::driver::{Driver, Result};
use crate::gate::lock;

/// How long the last barrier of [`Work::is_done`] may take to pass an idle GPU.
const BARRIER_BOUND: Duration = Duration::from_micros(500);

/// The contexts and streams of the program.
pub struct Work {
    driver: &'static dyn Driver,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    contexts: Vec<KnownContext>,
    streams: Vec<KnownStream>,
    /// Work of streams that the program destroyed before it was done.
    leftovers: Vec<(Context, Event)>,
    /// Threads whose per-thread stream captures.
    per_thread: u32,
}

struct KnownContext {
    context: Context,
    device: i32,
    primary: bool,
    /// How often the program retained it, if it is the primary one.
    uses: u32,
    barrier: Option<Event>,
}

struct KnownStream {
    context: Context,
    stream: Stream,
    capture: Capture,
}

/// Where a stream stands between the beginning and the end of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Outside.
    No,
    /// The driver is about to be asked for one: its answer that there is none counts for nothing.
    Begins,
    /// It has begun. It may end unseen: another stream joins it, or breaks it.
    Goes,
}

impl Work {
    /// Nothing yet.
    pub fn new(driver: &'static dyn Driver) -> Self {
        Self {
            driver,
            known: Mutex::default(),
        }
    }

    /// Learns a context; false if it is known already.
    pub fn add_context(&self, context: Context, device: i32, primary: bool) -> bool {
        let mut known = lock(&self.known);
        if known.contexts.iter().any(|other| other.context == context) {
            return false;
        }
        known.contexts.push(KnownContext {
            context,
            device,
            primary,
            uses: 0,
            barrier: None,
        });
        true
    }

    /// The program retained a primary context, which may have been learnt as any context before.
    pub fn use_primary(&self, context: Context) {
        let mut known = lock(&self.known);
        if let Some(found) = known
            .contexts
            .iter_mut()
            .find(|other| other.context == context)
        {
            found.primary = true;
            found.uses += 1;
        }
    }

    /// The program gives one use of a primary context back: true if that was the last.
    pub fn give_up_primary(&self, context: Context) -> bool {
        let mut known = lock(&self.known);
        let found = known
            .contexts
            .iter_mut()
            .find(|other| other.context == context);
        found.is_some_and(|found| {
            found.uses = found.uses.saturating_sub(1);
            found.uses == 0
        })
    }

    /// The GPU of a context.
    pub fn device_of(&self, context: Context) -> Option<i32> {
        let known = lock(&self.known);
        let found = known.contexts.iter().find(|other| other.context == context);
        found.map(|found| found.device)
    }

    /// Forgets a context that the program is about to destroy.
    pub fn remove_context(&self, context: Context) {
        let mut known = lock(&self.known);
        known.contexts.retain(|other| other.context != context);
        known.streams.retain(|stream| stream.context != context);
        known.leftovers.retain(|(other, _)| *other != context);
    }

    /// The context that the agent works in: the primary one if the program has it.
    pub fn context_on(&self, device: i32) -> Option<Context> {
        let known = lock(&self.known);
        let mut here = known.contexts.iter().filter(|other| other.device == device);
        let first = here.next()?;
        let best = if first.primary {
            first
        } else {
            here.find(|other| other.primary).unwrap_or(first)
        };
        Some(best.context)
    }

    /// The primary context of a GPU.
    pub fn primary_on(&self, device: i32) -> Option<Context> {
        let known = lock(&self.known);
        let mut primaries = known.contexts.iter().filter(|other| other.primary);
        primaries
            .find(|other| other.device == device)
            .map(|other| other.context)
    }

    /// All contexts of a GPU.
    pub fn contexts_on(&self, device: i32) -> Vec<Context> {
        let known = lock(&self.known);
        let here = known.contexts.iter().filter(|other| other.device == device);
        here.map(|other| other.context).collect()
    }

    /// Learns a stream that the program made in `context`.
    pub fn add_stream(&self, context: Context, stream: Stream) {
        lock(&self.known).streams.push(KnownStream {
            context,
            stream,
            capture: Capture::No,
        });
    }

    /// Before the program destroys a stream: its work is marked, because it may outlive it.
    pub fn remove_stream(&self, stream: Stream) {
        let mut known = lock(&self.known);
        let Some(at) = known
            .streams
            .iter()
            .position(|other| other.stream == stream)
        else {
            return;
        };
        let gone = known.streams.swap_remove(at);
        if gone.capture != Capture::No || self.driver.stream_done(stream) {
            return;
        }
        let marked = in_context(self.driver, gone.context, || {
            let event = self.driver.create_event()?;
            self.driver.record(event, stream).map(|()| event)
        });
        if let Ok(event) = marked {
            known.leftovers.push((gone.context, event));
        }
    }

    /// Notes where a stream stands. The per-thread stream is another one in each thread: a thread
    /// says [`Capture::Begins`] once for it, and [`Capture::No`] once after that.
    pub fn set_capture(&self, context: Context, stream: Stream, capture: Capture) {
        let mut known = lock(&self.known);
        if stream == Stream::PER_THREAD {
            known.per_thread = match capture {
                Capture::Begins => known.per_thread + 1,
                Capture::Goes => known.per_thread,
                Capture::No => known.per_thread.saturating_sub(1),
            };
            return;
        }
        match known
            .streams
            .iter_mut()
            .find(|other| other.stream == stream && other.context == context)
        {
            Some(found) => found.capture = capture,
            None => known.streams.push(KnownStream {
                context,
                stream,
                capture,
            }),
        }
    }

    /// Whether a stream of the process captures.
    pub fn captures(&self) -> bool {
        self.captures_in(&mut lock(&self.known))
    }

    fn captures_in(&self, known: &mut Known) -> bool {
        let driver = self.driver;
        known.per_thread > 0
            || known.streams.iter_mut().any(|known| {
                if known.capture == Capture::Goes {
                    let goes = in_context(driver, known.context, || {
                        Ok(driver.stream_captures(known.stream))
                    });
                    if !goes.unwrap_or(false) {
                        known.capture = Capture::No;
                    }
                }
                known.capture != Capture::No
            })
    }

    /// Whether all streams that can be asked without a barrier are done. Cheap. While a stream
    /// captures none is asked, for that would break the capture.
    pub fn looks_done(&self, device: i32) -> bool {
        let mut known = lock(&self.known);
        !self.captures_in(&mut known) && self.streams_done(&mut known, device)
    }

    /// Whether all work on the GPU is done. With the gate closed and no thread in a call, so that
    /// none is added; no stream captures.
    ///
    /// The per-thread streams of other threads cannot be asked: an event on the legacy stream
    /// waits for them, and an idle GPU passes it at once.
    pub fn is_done(&self, device: i32) -> bool {
        let mut known = lock(&self.known);
        if !self.streams_done(&mut known, device) {
            return false;
        }
        let driver = self.driver;
        let mut here = known
            .contexts
            .iter_mut()
            .filter(|other| other.device == device);
        here.all(|known| {
            let passed = in_context(driver, known.context, || {
                let event = match known.barrier {
                    Some(event) => event,
                    None => *known.barrier.insert(driver.create_event()?),
                };
                driver.record(event, Stream::LEGACY)?;
                let start = Instant::now();
                while !driver.event_done(event) {
                    if start.elapsed() > BARRIER_BOUND {
                        return Ok(false);
                    }
                    std::thread::sleep(Duration::from_micros(10));
                }
                Ok(true)
            });
            // A context that fails has no work left.
            passed.unwrap_or(true)
        })
    }

    /// Waits until [`Self::is_done`], at most `bound`.
    pub fn wait_done(&self, device: i32, bound: Duration) -> bool {
        let start = Instant::now();
        let mut pause = Duration::from_micros(10);
        while !self.is_done(device) {
            if start.elapsed() >= bound {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        true
    }

    fn streams_done(&self, known: &mut Known, device: i32) -> bool {
        let driver = self.driver;
        let Known {
            contexts,
            streams,
            leftovers,
            ..
        } = known;
        contexts
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
                        && driver.stream_done(Stream::LEGACY)
                        && streams
                            .iter()
                            .filter(|stream| {
                                stream.context == context && stream.stream.is_created()
                            })
                            .all(|stream| driver.stream_done(stream.stream)))
                });
                done.unwrap_or(true)
            })
    }
}

/// Runs `call` with `context` current, and makes the one before current again.
pub fn in_context<T>(
    driver: &dyn Driver,
    context: Context,
    call: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = driver.current_context()?;
    if before == Some(context) {
        return call();
    }
    driver.set_context(Some(context))?;
    let result = call();
    driver.set_context(before)?;
    result
}
