//! What a thread did to streams while it was inside the agent (see [`gate`](crate::gate)), when it
//! may have held the locks of this room: noted under a lock that nobody holds while the driver is
//! called, and taken in by the next look at the streams.
//!
//! A handle may be given again to the program as soon as its stream is destroyed. So whoever reads or
//! writes what is known of a stream takes in first what was noted of the one before.

use super::{Known, Work};
use crate::cuda::Stream;
use crate::gate::{Locked, lock, lock_briefly};

/// What was done to the streams of one handle, from the last end of one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// One was destroyed.
    ended: bool,
    /// After that, there was work.
    worked: bool,
}

impl Work {
    /// Notes work on a stream, from inside the agent.
    pub fn note_work(&self, stream: Stream) {
        // The others are asked in any case.
        if stream.is_created() {
            let mut missed = lock_briefly(&self.missed);
            missed.entry(stream).or_default().worked = true;
        }
    }

    /// Notes that a stream is about to be destroyed, from inside the agent.
    pub fn note_end(&self, stream: Stream) {
        let missed = Missed {
            ended: true,
            worked: false,
        };
        lock_briefly(&self.missed).insert(stream, missed);
    }

    /// What is known, with what was noted until now. Held while the driver is asked about a stream, so
    /// that no other thread of the program destroys it meanwhile.
    pub(super) fn caught_up(&self) -> Locked<'_, Known> {
        let mut known = lock(&self.known);
        let missed = std::mem::take(&mut *lock_briefly(&self.missed));
        for (&stream, _) in missed.iter().filter(|(_, missed)| missed.ended) {
            known.streams.remove(&stream);
        }
        for (&stream, _) in missed.iter().filter(|(_, missed)| missed.worked) {
            // The driver refuses a stream that it does not know.
            let _ = self.touch_in(&mut known, stream);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::agent::tests::bench;
    use crate::gate::{Inside, try_lock};
    use crate::work::Capture;

    #[test]
    fn a_drain_waits_for_work_that_was_begun_inside() {
        // Of which nobody has heard before, and for which the legacy stream does not wait.
        const STREAM: Stream = Stream(0x4560);
        let bench = bench("missed", |_| ());
        bench.driver.set_apart(STREAM);
        bench.launch(|| {
            let _inside = Inside::begin();
            let call = bench.agent.enter_inside(STREAM);
            bench.driver.set_busy(STREAM, true);
            drop(call.expect("within a call that passed"));
        });
        std::thread::sleep(Duration::from_millis(50));
        let jobs = bench.daemon.block().agent.jobs().unwrap();
        assert_ne!(jobs.requested, jobs.completed, "its work goes on");
        bench.driver.set_busy(STREAM, false);
        bench.idle();
    }

    #[test]
    fn a_stream_that_ended_inside_is_asked_no_more() {
        let bench = bench("missed-end", |_| ());
        let (work, stream) = (&bench.agent.work, Stream(0x4570));
        work.note_work(stream);
        drop(work.caught_up());
        assert!(lock(&work.known).streams.contains_key(&stream));
        work.note_work(stream);
        work.note_end(stream);
        drop(work.caught_up());
        assert!(!lock(&work.known).streams.contains_key(&stream));
    }

    /// The program is given a handle again that was destroyed inside, and works on the new stream.
    #[test]
    fn the_end_of_a_stream_is_not_that_of_the_next_with_its_handle() {
        type Learn = fn(&Work, Stream);
        let learns: [(usize, Learn); 3] = [
            (0x4580, Work::add_stream),
            (0x4590, |work, stream| {
                work.touch(stream).unwrap();
            }),
            (0x45a0, |work, stream| {
                work.device_of_stream(stream);
            }),
        ];
        let bench = bench("missed-again", |_| ());
        let work = &bench.agent.work;
        for (handle, learn) in learns {
            let stream = Stream(handle);
            bench.driver.set_apart(stream);
            work.touch(stream).unwrap();
            work.note_end(stream);
            learn(work, stream);
            bench.driver.set_busy(stream, true);
            assert!(!work.looks_done(0), "{stream:?} is asked no more");
            bench.driver.set_busy(stream, false);
            assert!(work.looks_done(0));
        }
    }

    #[test]
    fn a_stream_made_inside_has_nothing_of_the_one_that_ended_there() {
        let bench = bench("missed-anew", |_| ());
        let (work, stream) = (&bench.agent.work, Stream(0x45b0));
        work.set_capture(stream, Capture::Begins);
        assert!(work.captures());
        work.note_end(stream);
        work.note_work(stream);
        bench.driver.set_apart(stream);
        bench.driver.set_busy(stream, true);
        assert!(!work.looks_done(0), "nobody asks it");
        assert!(!work.captures(), "the stream before it did");
        // And the other way round.
        work.note_work(stream);
        work.note_end(stream);
        assert!(work.looks_done(0), "it is no more");
        bench.driver.set_busy(stream, false);
    }

    /// Whoever destroys a stream waits for the lock before the driver does it.
    #[test]
    fn no_stream_ends_while_the_driver_is_asked_about_it() {
        let bench = bench("missed-asked", |_| ());
        let (agent, stream) = (bench.agent, Stream(0x45c0));
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        bench.driver.subscribe(Some(Arc::new(move |name| {
            if name == "stream_context" {
                let locked = try_lock(&agent.work.known).is_none();
                counted.fetch_add(if locked { 1 } else { 100 }, Ordering::Relaxed);
            }
        })));
        agent.work.note_work(stream);
        drop(agent.work.caught_up());
        agent.work.touch(Stream(0x45d0)).unwrap();
        bench.driver.subscribe(None);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
