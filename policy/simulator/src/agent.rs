//! A program with its agent: memory, one job at a time, one swap operation at a time.

use rtswap_policy::scheduler::{Direction, JobSeq, SwapSeq, Usage};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::record::{Burst, Moved};

/// How far a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not there yet, refused, or gone.
    #[default]
    Away,
    /// It has asked for the budget of its footprint.
    Loading,
    /// It has its memory.
    Loaded,
}

/// A swap operation under way: a run of chunks at an even pace, and after a pause for want of
/// credit another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) op: SwapSeq,
    pub(crate) direction: Direction,
    /// In the backing store when it is done, and when it began.
    pub(crate) target: Bytes,
    pub(crate) from: Bytes,
    pub(crate) started: Time,
    /// In the backing store when the run began, the instant of that, and its chunks: none while
    /// it pauses.
    pub(crate) at: Bytes,
    pub(crate) ready: Time,
    pub(crate) chunks: u64,
    /// The time of one chunk, not zero, and its size.
    pub(crate) pace: Nanos,
    pub(crate) chunk: Bytes,
    pub(crate) aborted: bool,
    /// It goes on although it is aborted, until then at most.
    pub(crate) ignores_until: Option<Time>,
    /// When to look at it next; anything planned for other instants is void.
    pub(crate) due: Time,
}

/// One program and the agent in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agent {
    pub(crate) stage: Stage,
    /// Realtime, and its jobs have deadlines.
    pub(crate) ready: bool,
    pub(crate) usage: Usage,
    pub(crate) budget: Bytes,
    pub(crate) moving: Option<Moving>,
    /// Asked for so far.
    pub(crate) jobs: u32,
    /// Of `Execution::Each` and `Arrivals::At`, the next.
    pub(crate) execution: usize,
    pub(crate) release: usize,
    /// Asked for and not ended.
    pub(crate) open: Option<JobSeq>,
    pub(crate) running: Option<JobSeq>,
    /// Requests that came while a job was open: the program asks when it has ended.
    pub(crate) late_requests: u32,
    /// Swapped for the open job.
    pub(crate) out: Moved,
    pub(crate) in_: Moved,
    /// Of a best-effort program: the request that it works on.
    pub(crate) burst: Option<Burst>,
    /// What the job under way still has to execute, once that is drawn.
    pub(crate) rest: Option<Nanos>,
    /// When the present part of it was granted.
    pub(crate) granted: Time,
    /// Jobs that the burst asks for after this one.
    pub(crate) to_come: u64,
}

impl Moving {
    /// What is in the backing store after the first `chunks` of the run.
    pub(crate) fn after(&self, chunks: u64) -> Bytes {
        let moved = Bytes(chunks * self.chunk.0);
        match self.direction {
            Direction::Out => self.at + moved,
            Direction::In => self.at - moved,
        }
    }

    /// When the first `chunks` of the run have moved.
    pub(crate) fn instant(&self, chunks: u64) -> Time {
        self.ready + Nanos(self.pace.0.saturating_mul(chunks))
    }

    /// Chunks of the run that have moved.
    pub(crate) fn moved(&self, now: Time) -> u64 {
        ((now - self.ready).0 / self.pace.0).min(self.chunks)
    }

    /// Chunks of the run that have moved or are moving.
    pub(crate) fn begun(&self, now: Time) -> u64 {
        (now - self.ready).0.div_ceil(self.pace.0).min(self.chunks)
    }

    /// Chunks from where the run began to the target.
    pub(crate) fn rest(&self) -> u64 {
        self.at.0.abs_diff(self.target.0) / self.chunk.0
    }

    /// Begins a new run of `chunks` where the last has stopped, at `now` or when it would have
    /// begun.
    pub(crate) fn go_on(&mut self, now: Time, chunks: u64) {
        self.at = self.after(self.moved(now));
        self.ready = self.ready.max(now);
        self.chunks = chunks;
    }

    /// Goes on at `pace` from `now`. The part of a chunk that has moved stays, rounded up: no change of pace makes the
    /// operation take longer than at the slower one all the time.
    pub(crate) fn change_pace(&mut self, now: Time, pace: Nanos) {
        if self.chunks > 0 && now > self.ready {
            // A run that is complete but not yet looked at keeps its last chunk, and ends now.
            let done = self.moved(now).min(self.chunks - 1);
            let spent = (now - self.instant(done)).0.min(self.pace.0);
            let scaled = (u128::from(spent) * u128::from(pace.0)).div_ceil(u128::from(self.pace.0));
            self.at = self.after(done);
            self.chunks -= done;
            self.ready = Time(now.0.saturating_sub(scaled as u64));
        }
        self.pace = pace;
    }
}

impl Agent {
    /// The chunks are where an operation has left them.
    pub(crate) fn moved(&mut self, swapped: Bytes) {
        let usage = &mut self.usage;
        usage.resident = usage.resident + usage.swapped - swapped;
        usage.swapped = swapped;
    }

    /// On the GPU, with the chunk that is moving in and that which is moving out.
    pub(crate) fn holds(&self, now: Time) -> Bytes {
        let whole = self.usage.resident + self.usage.swapped;
        match &self.moving {
            Some(moving) if moving.direction == Direction::In => {
                whole - moving.after(moving.begun(now))
            }
            Some(moving) => whole - moving.after(moving.moved(now)),
            None => self.usage.resident,
        }
    }

    /// How many chunks the budget lets the run fill, counted from where it began.
    pub(crate) fn credit(&self, moving: &Moving) -> u64 {
        let whole = self.usage.resident + self.usage.swapped;
        let room = self.budget.saturating_sub(whole - moving.at);
        (room.0 / moving.chunk.0).min(moving.rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(direction: Direction) -> Moving {
        Moving {
            op: SwapSeq(1),
            direction,
            target: Bytes(10),
            from: Bytes(40),
            started: Time(100),
            at: Bytes(40),
            ready: Time(105),
            chunks: 3,
            pace: Nanos(10),
            chunk: Bytes(10),
            aborted: false,
            ignores_until: None,
            due: Time(135),
        }
    }

    #[test]
    fn an_operation_is_at_a_chunk_boundary_when_its_pace_says_so() {
        let moving = moving(Direction::In);
        let at = |now| (moving.moved(Time(now)), moving.begun(Time(now)));
        assert_eq!(at(102), (0, 0));
        assert_eq!(at(106), (0, 1));
        assert_eq!(at(115), (1, 1));
        assert_eq!(at(116), (1, 2));
        assert_eq!(at(900), (3, 3));
        assert_eq!(moving.after(2), Bytes(20));
        assert_eq!(moving.instant(3), Time(135));
    }

    #[test]
    fn a_pause_costs_what_it_lasts() {
        let mut moving = moving(Direction::In);
        moving.chunks = 1;
        moving.go_on(Time(115), 0);
        assert_eq!((moving.at, moving.begun(Time(400))), (Bytes(30), 0));
        moving.go_on(Time(200), 2);
        assert_eq!(moving.instant(2), Time(220));
        assert_eq!(moving.after(2), moving.target);
    }

    #[test]
    fn a_change_of_pace_keeps_what_has_moved() {
        let mut slower = moving(Direction::In);
        // One chunk and four tenths of the next: the rest of it takes 12 and the last one 20.
        slower.change_pace(Time(119), Nanos(20));
        assert_eq!((slower.at, slower.chunks), (Bytes(30), 2));
        assert_eq!((slower.moved(Time(119)), slower.begun(Time(119))), (0, 1));
        assert_eq!(
            (slower.instant(1), slower.instant(2)),
            (Time(131), Time(151))
        );
        slower.change_pace(Time(131), Nanos(10));
        assert_eq!((slower.at, slower.instant(1)), (Bytes(20), Time(141)));

        let mut base = moving(Direction::In);
        base.change_pace(Time(103), Nanos(20));
        assert_eq!(base.instant(3), Time(165));

        let mut complete = moving(Direction::Out);
        complete.change_pace(Time(135), Nanos(20));
        assert_eq!((complete.chunks, complete.instant(1)), (1, Time(135)));
        assert_eq!(complete.after(complete.moved(Time(135))), Bytes(70));
    }

    #[test]
    fn credit_is_what_the_budget_has_room_for() {
        let mut agent = Agent {
            usage: Usage {
                resident: Bytes(60),
                swapped: Bytes(40),
                arena: Bytes(80),
            },
            budget: Bytes(79),
            ..Agent::default()
        };
        let moving = moving(Direction::In);
        assert_eq!(agent.credit(&moving), 1);
        agent.budget = Bytes(100);
        assert_eq!(agent.credit(&moving), 3, "up to the target only");
        agent.moving = Some(moving);
        assert_eq!(agent.holds(Time(116)), Bytes(80));
    }
}
