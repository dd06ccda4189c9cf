//! The streams of the program: which there are, which were worked on, which capture.

use super::{Known, Work, in_context};
use crate::cuda::{Context, Event, Status, Stream};
use crate::driver::Result;
use crate::gate::{self, Life, lock};

/// A stream that the program made; or one of the two that it need not make, for which only
/// `calls` counts, since each context or thread has another one.
pub(super) struct KnownStream {
    pub(super) context: Context,
    pub(super) device: i32,
    pub(super) capture: Capture,
    /// May have work: there was a call on it since it was last found done.
    pub(super) touched: bool,
    /// Calls since an event was last recorded on it, so far as threads told.
    pub(super) calls: u32,
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
    /// Learns a stream that was just made. It counts as worked on: a thread may still have one in
    /// mind that had this handle before.
    pub fn add_stream(&self, stream: Stream) {
        let mut known = self.caught_up();
        match self.look_up(&known, stream) {
            Ok(made) => drop(known.streams.insert(stream, made)),
            // The first call on it is the next chance.
            Err(_) => gate::forget_streams(),
        }
    }

    /// Asks the driver where a stream belongs.
    fn look_up(&self, known: &Known, stream: Stream) -> Result<KnownStream> {
        let driver = self.driver;
        let context = match driver.stream_context(stream) {
            // Of a green context, or a driver that cannot tell.
            Err(Status::NOT_SUPPORTED | Status::NOT_FOUND) => {
                driver.current_context()?.ok_or(Status::INVALID_CONTEXT)?
            }
            told => told?,
        };
        let device = match known.device_of(context) {
            Some(device) => device,
            None => in_context(driver, context, || driver.current_device())?,
        };
        Ok(KnownStream {
            context,
            device,
            capture: Capture::No,
            touched: true,
            calls: 0,
        })
    }

    /// Notes that there is a call on `stream`, by which it is learnt if it was made unseen, and the
    /// `calls` before that a thread made on it. The calls since its last event.
    pub(super) fn touch(&self, stream: Stream) -> Result<u32> {
        self.touch_in(&mut self.caught_up(), stream)
    }

    /// The same with what is known at hand.
    pub(super) fn touch_in(&self, known: &mut Known, stream: Stream) -> Result<u32> {
        let found = self.find(known, stream)?;
        found.touched = true;
        Ok(found.calls)
    }

    /// A stream, which is learnt if it was made unseen.
    fn find<'a>(&self, known: &'a mut Known, stream: Stream) -> Result<&'a mut KnownStream> {
        if !known.streams.contains_key(&stream) {
            let found = self.look_up(known, stream)?;
            known.streams.insert(stream, found);
        }
        known.streams.get_mut(&stream).ok_or(Status::UNKNOWN)
    }

    /// The GPU of a stream that the program made, seen or unseen.
    pub fn device_of_stream(&self, stream: Stream) -> Option<i32> {
        if !stream.is_created() {
            return None;
        }
        let mut known = self.caught_up();
        self.find(&mut known, stream).ok().map(|found| found.device)
    }

    /// Before the program destroys a stream: its work is marked, because it may outlive it.
    pub fn remove_stream(&self, stream: Stream) {
        let context = {
            let known = self.caught_up();
            let Some(going) = known.streams.get(&stream) else {
                return;
            };
            let is_asked = going.touched && going.capture == Capture::No;
            is_asked.then_some(going.context)
        };
        // Without the lock: the driver waits where the stream has no room for one more, and who gets
        // the stream on may need the lock. Drains ask the stream itself until there is the event.
        let marked = context.map(|context| {
            in_context(self.driver, context, || {
                if self.driver.stream_done(stream) {
                    return Ok(None);
                }
                let event = self.driver.create_event()?;
                self.record(event, stream).map(|()| Some((context, event)))
            })
        });
        let mut known = lock(&self.known);
        known.streams.remove(&stream);
        if let Some(Ok(Some(marked))) = marked {
            known.leftovers.push(marked);
        }
    }

    /// Records an event, which is freed where it cannot be.
    pub(super) fn record(&self, event: Event, stream: Stream) -> Result<()> {
        self.driver.record(event, stream).inspect_err(|_| {
            let _ = self.driver.destroy_event(event);
        })
    }

    /// Notes where a stream stands. The per-thread stream is another one in each thread: a thread
    /// says [`Capture::Begins`] once for it, and [`Capture::No`] once after that.
    pub fn set_capture(&self, stream: Stream, capture: Capture) {
        if stream == Stream::PER_THREAD {
            let own = Life::own();
            let per_thread = &mut lock(&self.known).per_thread;
            match capture {
                Capture::Begins => per_thread.push(own),
                Capture::Goes => {}
                Capture::No => {
                    let at = per_thread.iter().position(|life| life.is(own));
                    at.map(|at| per_thread.swap_remove(at));
                }
            }
            return;
        }
        // One that the driver does not know cannot capture.
        if let Ok(found) = self.find(&mut self.caught_up(), stream) {
            found.touched = true;
            found.capture = capture;
        }
    }

    /// Whether a stream of the process captures.
    pub fn captures(&self) -> bool {
        self.captures_in(&mut lock(&self.known))
    }

    pub(super) fn captures_in(&self, known: &mut Known) -> bool {
        let driver = self.driver;
        known.thread_captures()
            || known.streams.iter_mut().any(|(&stream, known)| {
                if known.capture == Capture::Goes {
                    let goes =
                        in_context(driver, known.context, || Ok(driver.stream_captures(stream)));
                    if !goes.unwrap_or(false) {
                        known.capture = Capture::No;
                    }
                }
                known.capture != Capture::No
            })
    }

    /// Whether a capture was begun that is not known to have ended. Asks nobody.
    pub(super) fn may_capture(&self) -> bool {
        let mut known = lock(&self.known);
        known.thread_captures()
            || known
                .streams
                .values()
                .any(|stream| stream.capture != Capture::No)
    }
}
