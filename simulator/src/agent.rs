//! A program with its agent: memory, one job at a time, one swap operation at a time.

use rtswap_policy::scheduler::{Direction, JobSeq, SwapSeq, Usage};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

/// What happens at a planned instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A job of this task is asked for.
    Request(TaskId),
    /// This job ends, if it was not revoked before.
    JobEnds(TaskId, JobSeq),
    /// This swap operation ends, if it was not aborted before.
    SwapEnds(TaskId, SwapSeq),
    /// The timer of the scheduler.
    Timer,
}

/// A swap operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) op: SwapSeq,
    pub(crate) direction: Direction,
    pub(crate) from: Bytes,
    pub(crate) target: Bytes,
    pub(crate) started: Time,
    pub(crate) base: Nanos,
    pub(crate) per_chunk: Nanos,
    pub(crate) aborted: bool,
}

/// One program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agent {
    pub(crate) usage: Usage,
    pub(crate) budget: Bytes,
    pub(crate) moving: Option<Moving>,
    pub(crate) jobs: u32,
    /// Asked for and not ended.
    pub(crate) open: Option<JobSeq>,
    pub(crate) running: Option<JobSeq>,
    /// Requests that came while a job was open: the program asks when it has ended.
    pub(crate) late_requests: u32,
}

impl Moving {
    /// When it stops, at the first chunk boundary from `now` on, and what is in the backing
    /// store then. Nothing moves before the base has passed.
    pub(crate) fn stop(&self, now: Time, chunk: Bytes) -> (Time, Bytes) {
        let total = self.from.0.abs_diff(self.target.0) / chunk.0;
        let past = (now - self.started).saturating_sub(self.base);
        let begun = past.0.div_ceil(self.per_chunk.0.max(1)).min(total);
        let moved = Bytes(begun * chunk.0);
        let at = self.started + self.base + Nanos(self.per_chunk.0 * begun);
        let swapped = match self.direction {
            Direction::Out => self.from + moved,
            Direction::In => self.from - moved,
        };
        (at.max(now), swapped)
    }
}

impl Agent {
    /// The chunks are where an operation has left them.
    pub(crate) fn moved(&mut self, swapped: Bytes) {
        let usage = &mut self.usage;
        usage.resident = usage.resident + usage.swapped - swapped;
        usage.swapped = swapped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_stops_at_the_next_chunk_boundary() {
        let moving = Moving {
            op: SwapSeq(1),
            direction: Direction::In,
            from: Bytes(40),
            target: Bytes(10),
            started: Time(100),
            base: Nanos(5),
            per_chunk: Nanos(10),
            aborted: true,
        };
        let stop = |now| moving.stop(Time(now), Bytes(10));
        assert_eq!(stop(102), (Time(105), Bytes(40)));
        assert_eq!(stop(106), (Time(115), Bytes(30)));
        assert_eq!(stop(115), (Time(115), Bytes(30)));
        assert_eq!(stop(900), (Time(900), Bytes(10)));
    }
}
