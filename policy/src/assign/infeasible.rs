//! Why no volumes pass, in words and numbers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::{Assignment, Demand};
use crate::admission::{Analysis, Test};
use crate::units::Bytes;

/// Why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Infeasible {
    /// One task alone needs more than there is.
    TooLarge {
        /// Its place.
        task: usize,
        /// ⌈m/δ⌉·δ.
        footprint: Bytes,
        /// mᴰ.
        capacity: Bytes,
    },
    /// However much leaves, one task and what cannot be swapped of the others do not fit.
    NotSwappable {
        /// Σm − mᴰ, in whole chunks.
        overflow: Bytes,
        /// The most that can be out while any one task is in: Σmˢ − max mˢ, in whole chunks.
        swappable: Bytes,
    },
    /// The memory could be had, the time cannot. The last that was
    /// tried, with the analysis that it fails.
    NotSchedulable(Box<Assignment>),
}

impl Infeasible {
    /// In words and numbers, what binds and what would help; names by `name`.
    pub fn describe<'a>(&self, demands: &[Demand], name: impl Fn(usize) -> &'a str) -> String {
        match self {
            Self::TooLarge {
                task,
                footprint,
                capacity,
            } => format!(
                "{} needs {footprint} at once and {capacity} can be handed out: it does not fit \
                 on this GPU even alone",
                name(*task)
            ),
            Self::NotSwappable {
                overflow,
                swappable,
            } => format!(
                "{overflow} must be out while any one task is in, but only {swappable} of the \
                 others can leave: {} more must be swappable, or the footprints that much smaller",
                overflow.saturating_sub(*swappable)
            ),
            Self::NotSchedulable(tried) => {
                let analysis = &tried.analysis;
                let heaviest = (0..analysis.tasks.len()).max_by(|a, b| {
                    share(demands, analysis, *a).total_cmp(&share(demands, analysis, *b))
                });
                let mut text = binding(demands, analysis, &name);
                if let Some(task) = heaviest {
                    let load = &analysis.tasks[task];
                    let _ = write!(
                        text,
                        "; the largest share is {:.4} of {}: {} out, {} in, {} execution in {}",
                        share(demands, analysis, task),
                        name(task),
                        load.swap_out,
                        load.swap_in,
                        demands[task].timing.wcet,
                        demands[task].timing.deadline,
                    );
                }
                text
            }
        }
    }
}

/// What of a failed test binds.
fn binding<'a>(demands: &[Demand], analysis: &Analysis, name: impl Fn(usize) -> &'a str) -> String {
    let blocking = format!(
        "a blocking of {} ({})",
        analysis.blocking.total,
        analysis.blocking.describe(name)
    );
    let shortest = demands.iter().map(|d| d.timing.deadline).min();
    match (analysis.test, analysis.binding, shortest) {
        (Test::Theorem1, _, Some(shortest)) => format!(
            "the test fails: Eq. (3) comes to {:.4} and may be {:.4}, with {blocking} over the \
             shortest deadline of {shortest}",
            analysis.demand, analysis.bound,
        ),
        (_, Some(span), _) => format!(
            "the test fails: in {span} from a release to a deadline, the jobs due and {blocking} \
             take {:.4} of the time",
            analysis.demand,
        ),
        _ if !analysis.complete => format!(
            "the test came to no end: with a utilization of {:.6} more spans could fail than can \
             be looked at",
            analysis.utilization,
        ),
        _ => format!(
            "the test fails: swapping and execution take {:.4} of the time, and {}",
            analysis.utilization,
            if analysis.utilization > 1.0 {
                "there is no more than 1"
            } else {
                "best-effort needs some of it beside them"
            },
        ),
    }
}

fn share(demands: &[Demand], analysis: &Analysis, task: usize) -> f64 {
    analysis.tasks[task].demand.0 as f64 / demands[task].timing.deadline.0 as f64
}
