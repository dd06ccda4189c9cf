//! Time sharing that suspends a program whole: all its memory leaves before the next program's comes.
//!
//! The quantum of 60 s is Gandiva's (Xiao et al., OSDI 2018), which suspends and resumes training jobs so;
//! whole programs are what cuda-checkpoint, vLLM's sleep mode and servers that swap models move. Assumed: a
//! program without a job for a second is suspended early if another waits; these publications do not say.

use rtswap_policy::scheduler::{Discipline, Manners, Moment, Rank, Standing};
use rtswap_policy::units::{Nanos, Time};

use super::fixed::quantum_ends;
use super::{PLAIN, in_order};

/// Time sharing by suspension.
#[derive(Clone, Copy, Debug)]
pub struct SuspendAll {
    /// The length of a turn, while another program waits.
    pub quantum: Nanos,
    /// How long a program may have no job before it is suspended.
    pub idle: Nanos,
}

/// As the module says.
impl Default for SuspendAll {
    fn default() -> Self {
        Self {
            quantum: Nanos(60_000_000_000),
            idle: Nanos(1_000_000_000),
        }
    }
}

impl Discipline for SuspendAll {
    fn manners(&self) -> Manners {
        Manners {
            suspends: true,
            ..PLAIN
        }
    }

    fn rank(&self, task: &mut Standing, _: Nanos, _: &Moment) -> Rank {
        in_order(task)
    }

    fn turn_ends(&self, _: &Standing, other: &Standing, moment: &Moment) -> Time {
        quantum_ends(self.quantum, other, moment)
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
