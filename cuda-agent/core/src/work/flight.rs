//! Keeps the program from running further ahead of its GPU than a drain may take: every so many
//! calls on a stream an event is recorded on it, and once the events say that there are more calls
//! in flight than allowed, the next call waits for the oldest. Without such a limit (`max_in_flight`)
//! no bound on a drain would hold.
//!
//! A program may make work that waits for its own next call: a kernel that spins on a flag, a wait
//! for a value. So a call is held up once and for a bounded time, and not again before the work
//! that it waited for is done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Work, in_context, relaxed};
use crate::cuda::{Context, Event, Stream};
use crate::driver::Result;
use crate::gate::{self, InCall, lock};

/// Events for as many calls as are allowed in flight. More cost more, fewer bound worse: each
/// thread may have one part more in flight on each stream.
const PARTS: u32 = 2;
/// Between two looks at the oldest event.
const PAUSE: Duration = Duration::from_micros(20);

/// What is in flight, by GPU.
#[derive(Default)]
pub(super) struct Flight {
    /// Calls allowed; 0 for any number.
    most: AtomicU32,
    /// How long a call may be held up, in ms.
    bound_ms: AtomicU64,
    queues: Mutex<BTreeMap<i32, Queue>>,
}

#[derive(Default)]
struct Queue {
    marks: VecDeque<Mark>,
    /// Of all marks.
    calls: u64,
    /// The oldest mark was waited for in vain.
    stalled: bool,
    spare: Vec<(Context, Event)>,
}

struct Mark {
    context: Context,
    event: Event,
    calls: u32,
}

impl Flight {
    /// Forgets the events of a context that ends.
    pub(super) fn end_context(&self, context: Context) {
        for queue in lock(&self.queues).values_mut() {
            queue.marks.retain(|mark| mark.context != context);
            queue.spare.retain(|(other, _)| *other != context);
            queue.calls = queue.marks.iter().map(|mark| u64::from(mark.calls)).sum();
        }
    }
}

impl Work {
    /// Allows `most` calls in flight, 0 for any number; a call is held up for at most `bound`.
    pub fn allow_in_flight(&self, most: u32, bound: Duration) {
        self.flight.most.store(most, Ordering::Relaxed);
        let bound = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        self.flight.bound_ms.store(bound, Ordering::Relaxed);
    }

    /// Calls on a stream from one event to the next.
    fn part(&self) -> u32 {
        match self.flight.most.load(Ordering::Relaxed) {
            0 => u32::MAX,
            most => (most / PARTS).max(1),
        }
    }

    /// Marks `stream` for the call that is about to be made on it, and some more. Waits if too many
    /// are in flight on `gate`'s GPU.
    pub fn mark(&self, call: &InCall, stream: Stream, gates: u64) {
        let told = call.evict(stream.0);
        if let Some((other, calls)) = told
            && let Some(other) = lock(&self.known).streams.get_mut(&Stream(other))
        {
            other.calls = other.calls.saturating_add(calls);
        }
        // The driver refuses a stream that it does not know.
        let Ok(calls) = self.touch(stream) else {
            return;
        };
        let part = self.part();
        let left = if calls < part {
            part - calls
        } else {
            // A context that fails has nothing in flight.
            let _ = self.bound(stream, calls, gates);
            part
        };
        call.mark(stream.0, left);
        // The call itself.
        call.take(stream.0);
    }

    fn bound(&self, stream: Stream, calls: u32, gates: u64) -> Result<()> {
        let (context, device) = {
            let mut known = lock(&self.known);
            let Some(found) = known.streams.get_mut(&stream) else {
                return Ok(());
            };
            found.calls = 0;
            (found.context, found.device)
        };
        // Events recorded now would become part of the capture.
        if self.may_capture() {
            return Ok(());
        }
        // The default streams belong to the caller's context.
        let (context, device) = if stream.is_created() {
            (context, device)
        } else {
            let current = self.driver.current_context()?;
            (current.unwrap_or(context), self.driver.current_device()?)
        };
        let spare = {
            let mut queues = lock(&self.flight.queues);
            let spare = &mut queues.entry(device).or_default().spare;
            let at = spare.iter().position(|(of, _)| *of == context);
            at.map(|at| spare.swap_remove(at).1)
        };
        let event = in_context(self.driver, context, || {
            let event = match spare {
                Some(event) => event,
                None => self.driver.create_event()?,
            };
            self.record(event, stream).map(|()| event)
        })?;
        let most = u64::from(self.flight.most.load(Ordering::Relaxed));
        let many = {
            let mut queues = lock(&self.flight.queues);
            let queue = queues.entry(device).or_default();
            queue.calls += u64::from(calls);
            queue.marks.push_back(Mark {
                context,
                event,
                calls,
            });
            queue.calls > most
        };
        // Until there are as many as may be in flight, no event need be asked.
        if many {
            relaxed(self.driver, || self.wait_for_room(device, most, gates));
        }
        Ok(())
    }

    fn wait_for_room(&self, device: i32, most: u64, gates: u64) {
        let bound = Duration::from_millis(self.flight.bound_ms.load(Ordering::Relaxed));
        let start = Instant::now();
        loop {
            {
                let mut queues = lock(&self.flight.queues);
                let queue = queues.entry(device).or_default();
                while let Some(oldest) = queue.marks.front()
                    && self.driver.event_done(oldest.event)
                {
                    queue.calls -= u64::from(oldest.calls);
                    queue.stalled = false;
                    queue.spare.extend(
                        queue
                            .marks
                            .pop_front()
                            .map(|mark| (mark.context, mark.event)),
                    );
                }
                if queue.calls <= most || queue.stalled {
                    return;
                }
                if start.elapsed() >= bound || gate::host_call_may_wait(gates) {
                    queue.stalled = true;
                    return;
                }
            }
            if self.may_capture() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
