//! What a thread did to streams while it was inside the agent (see [`gate`](crate::gate)), when it
//! may have held the locks of this room: noted under a lock that nobody holds while the driver is
//! called, and taken in by the next look at the streams.

use super::Work;
use crate::cuda::Stream;
use crate::gate::{lock, lock_briefly};

/// What was done last to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It was given work.
    Work,
    /// It was destroyed.
    End,
}

impl Work {
    /// Notes work on a stream, from inside the agent.
    pub fn note_work(&self, stream: Stream) {
        // The others are asked in any case.
        if stream.is_created() {
            lock_briefly(&self.missed).insert(stream, Missed::Work);
        }
    }

    /// Notes that a stream is about to be destroyed, from inside the agent.
    pub fn note_end(&self, stream: Stream) {
        lock_briefly(&self.missed).insert(stream, Missed::End);
    }

    /// Takes in what was noted.
    pub(super) fn catch_up(&self) {
        let missed = std::mem::take(&mut *lock_briefly(&self.missed));
        for (stream, missed) in missed {
            match missed {
                // The driver refuses a stream that it does not know.
                Missed::Work => drop(self.touch(stream)),
                Missed::End => drop(lock(&self.known).streams.remove(&stream)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::agent::tests::bench;
    use crate::gate::Inside;

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
        work.catch_up();
        assert!(lock(&work.known).streams.contains_key(&stream));
        work.note_work(stream);
        work.note_end(stream);
        work.catch_up();
        assert!(!lock(&work.known).streams.contains_key(&stream));
    }
}
