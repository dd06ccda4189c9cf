//! Turns of one length for everybody, in the order of requests.
//!
//! [`Fixed::NVSHARE`] is nvshare (github.com/grgalex/nvshare, commit 1a8f211). Its scheduler.c gives a
//! lock first come, first served, and asks for it back after `NVSHARE_DEFAULT_TQ`, 30 s, whether another
//! waits or not: the holder asks again then. Its client.c gives the lock back early when the program has
//! submitted nothing for `release_early_check_interval`, 5 s, and the GPU is idle. Assumed: pages move as
//! chunks do here, and the quantum begins when they have come. nvshare moves them by page faults within the
//! quantum, which is slower.
//!
//! [`Fixed::EACH_JOB`] is rtswap's own policy until turns of best-effort (commit 4d0bfa4) paid for their
//! swaps: first come, first served by job; a job leaves the GPU 100 ms after its grant if another waits; the
//! memory of the next came in meanwhile as far as there was room beside the running program.

use rtswap_policy::scheduler::{Discipline, Manners, Moment, Rank, Standing};
use rtswap_policy::units::{Nanos, Time};

use super::{PLAIN, in_order};

/// What a quantum is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All jobs from the first that is granted on.
    Turn,
    /// One job.
    Job,
}

/// Turns of a fixed length.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// The length of a turn, while another program waits.
    pub quantum: Nanos,
    /// What it is for.
    pub span: Span,
    /// How long the GPU is kept for a program that has no job.
    pub idle: Nanos,
    /// Whether memory comes in for the next before the turn ends.
    pub brings_ahead: bool,
}

impl Fixed {
    /// nvshare with its defaults.
    pub const NVSHARE: Self = Self {
        quantum: Nanos(30_000_000_000),
        span: Span::Turn,
        idle: Nanos(5_000_000_000),
        brings_ahead: false,
    };

    /// rtswap until its turns paid for their swaps.
    pub const EACH_JOB: Self = Self {
        quantum: Nanos(100_000_000),
        span: Span::Job,
        idle: Nanos::ZERO,
        brings_ahead: true,
    };
}

/// When the quantum of the holder ends that is under way when `other` asks: without others it gets one
/// after another.
pub(super) fn quantum_ends(quantum: Nanos, other: &Standing, moment: &Moment) -> Time {
    let before = (other.requested - moment.since).0;
    let quanta = before.div_ceil(quantum.0.max(1)).max(1);
    moment.since + Nanos(quantum.0.saturating_mul(quanta))
}

impl Discipline for Fixed {
    fn manners(&self) -> Manners {
        Manners {
            brings_ahead: self.brings_ahead,
            ..PLAIN
        }
    }

    fn rank(&self, task: &mut Standing, _: Nanos, _: &Moment) -> Rank {
        in_order(task)
    }

    fn turn_ends(&self, _: &Standing, other: &Standing, moment: &Moment) -> Time {
        match self.span {
            Span::Turn => quantum_ends(self.quantum, other, moment),
            Span::Job => moment.granted + self.quantum,
        }
    }

    fn keeps(&self, _: &Standing, _: &Moment) -> Nanos {
        self.idle
    }

    fn longest_wait(&self) -> Option<Nanos> {
        None
    }

    fn delay(&self, _: Nanos) -> Nanos {
        Nanos::ZERO
    }

    fn changed(&self, _: &mut Standing, _: Option<&mut Standing>, _: Nanos) {}
}
