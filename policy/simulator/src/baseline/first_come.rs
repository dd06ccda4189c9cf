//! A lock: a program holds the GPU for one job, then the next in the order of requests has it.
//!
//! Assumed, because no one publication stands for it: this is what a queue in front of the GPU does, of
//! programs that take a file lock or of requests to one server. A job is never interrupted, and nothing
//! moves before the lock is free.

use rtswap_policy::scheduler::{Discipline, Manners, Moment, Rank, Standing};
use rtswap_policy::units::{Nanos, Time};

use super::{PLAIN, in_order};

/// The lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstCome;

impl Discipline for FirstCome {
    fn manners(&self) -> Manners {
        PLAIN
    }

    fn rank(&self, task: &mut Standing, _: Nanos, _: &Moment) -> Rank {
        in_order(task)
    }

    fn turn_ends(&self, _: &Standing, _: &Standing, _: &Moment) -> Time {
        Time::MAX
    }

    fn keeps(&self, _: &Standing, _: &Moment) -> Nanos {
        Nanos::ZERO
    }

    fn longest_wait(&self) -> Option<Nanos> {
        None
    }

    fn delay(&self, _: Nanos) -> Nanos {
        Nanos::ZERO
    }

    fn changed(&self, _: &mut Standing, _: Option<&mut Standing>, _: Nanos) {}
}
