//! What the product's policy for best-effort is compared with: one policy per file, each for the same
//! `Scheduler`. All of them move memory at the speed of ours, whatever their own mechanism reaches, so
//! that only the decisions differ. None of them knows weights.

mod feedback;
mod first_come;
mod fixed;
mod suspend_all;

pub use feedback::Feedback;
pub use first_come::FirstCome;
pub use fixed::{Fixed, Span};
pub use suspend_all::SuspendAll;

use rtswap_policy::scheduler::{Manners, Rank, Standing};

/// One program at a time, its memory moved once the GPU is free, out and then in.
const PLAIN: Manners = Manners {
    shares_turns: false,
    brings_ahead: false,
    overlaps: false,
    suspends: false,
};

/// The place of a job in the order of requests.
fn in_order(task: &Standing) -> Rank {
    Rank {
        level: 0,
        place: task.requested.0,
    }
}

#[cfg(test)]
mod tests;
