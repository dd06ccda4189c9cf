//! What a job does that copies between the GPU and the host while it runs.
//!
//! # Loaded engines
//!
//! A script has the three queues of an in-job plan: computing, copies out and copies in. The steps of a queue
//! run in their order, one at a time, and a step may wait for steps of the other queues.
//!
//! Beside a job the scheduler moves at most one other task's memory in each direction, so an in-job copy shares
//! its copy engine with at most one stream and has at least half of it. [`Script::loaded`] gives it no more than that.
//! A step begins at the latest of the ends that it waits for. So, along the waits, no step begins or ends later than
//! under `loaded`, whatever is swapped beside the job: the time is a safe C.

mod progress;

pub(crate) use progress::Progress;

use alloc::vec::Vec;

use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// The copy engines of one GPU, as its copies see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// From the GPU to the host, in bytes per second, with the other engine idle.
    pub out: u64,
    /// From the host to the GPU, in bytes per second, with the other engine idle.
    pub in_: u64,
    /// ρ: the rate of an engine while the other one copies too, over its rate alone.
    pub duplex: Ppm,
    /// What each copy takes beside its bytes, however busy the engines are.
    pub latency: Nanos,
}

/// How many steps of each queue must have ended before a step begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Of the computing queue.
    pub compute: u32,
    /// Of the queue of copies out.
    pub out: u32,
    /// Of the queue of copies in.
    pub in_: u32,
}

/// The steps of one job. It ends when all of them have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    link: Link,
    queues: [Vec<Step>; QUEUES],
}

/// One step of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// How long it computes, or takes beside its bytes.
    span: Nanos,
    /// The bytes that it copies.
    bytes: Bytes,
    after: [u32; QUEUES],
}

const QUEUES: usize = 3;

/// Units of bytes copied in a nanosecond, by direction: out, in.
pub(crate) type Speeds = [u128; 2];

/// A copy does `halves of an engine · bytes per second · ppm` of these in a nanosecond: every speed is an integer.
const UNITS_PER_BYTE: u128 = 2 * 1_000_000_000 * 1_000_000;

const COMPUTE: usize = 0;

const fn queue(direction: Direction) -> usize {
    match direction {
        Direction::Out => 1,
        Direction::In => 2,
    }
}

impl Link {
    /// The speeds of a job's copies. `copies` says in which directions, out and in, the job copies, and `swaps` in which
    /// memory of other tasks moves.
    pub(crate) fn speeds(&self, copies: (bool, bool), swaps: (bool, bool)) -> Speeds {
        let speed = |rate: u64, is_other_busy: bool, is_shared: bool| {
            let share = if is_other_busy { self.duplex } else { Ppm::ONE };
            let halves = if is_shared { 1 } else { 2 };
            halves * u128::from(rate) * u128::from(share.0)
        };
        [
            speed(self.out, copies.1 || swaps.1, swaps.0),
            speed(self.in_, copies.0 || swaps.0, swaps.1),
        ]
    }
}

impl Script {
    /// A job that does nothing, on the GPU that `link` belongs to.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            queues: [const { Vec::new() }; QUEUES],
        }
    }

    /// Appends computing for `span`.
    pub fn compute(&mut self, span: Nanos, after: After) {
        self.push(COMPUTE, span, Bytes::ZERO, after);
    }

    /// Appends a copy of `bytes`.
    pub fn copy(&mut self, direction: Direction, bytes: Bytes, after: After) {
        let latency = self.link.latency;
        self.push(queue(direction), latency, bytes, after);
    }

    fn push(&mut self, queue: usize, span: Nanos, bytes: Bytes, after: After) {
        let After { compute, out, in_ } = after;
        let after = [compute, out, in_];
        self.queues[queue].push(Step { span, bytes, after });
    }

    /// The copy engines that it was made for.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Its time while nothing else copies: each direction at its rate alone, and both at once at ρ of it. None if
    /// it never ends, because steps wait for each other or nothing is copied in a second.
    pub fn idle(&self) -> Option<Nanos> {
        self.time(|progress| {
            let copies = (
                progress.copies(Direction::Out),
                progress.copies(Direction::In),
            );
            self.link.speeds(copies, (false, false))
        })
    }

    /// Its time while each copy has half of an engine that is slowed by the other one: C of a task with such jobs. None if it
    /// never ends.
    pub fn loaded(&self) -> Option<Nanos> {
        let both = (true, true);
        self.time(|_| self.link.speeds(both, both))
    }

    fn time(&self, speeds: impl Fn(&Progress) -> Speeds) -> Option<Nanos> {
        let mut progress = Progress::begin(self);
        let mut time = Nanos::ZERO;
        while !progress.is_done(self) {
            let speeds = speeds(&progress);
            let span = progress.next_end(&speeds)?;
            progress.advance(self, span, &speeds);
            time += span;
        }
        Some(time)
    }
}

#[cfg(test)]
mod tests;
