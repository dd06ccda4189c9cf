//! Why no volumes pass, in words and numbers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::{Assignment, Demand};
use crate::admission::Analysis;
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
                let shortest = demands.iter().map(|d| d.timing.deadline).min();
                let heaviest = (0..analysis.tasks.len()).max_by(|a, b| {
                    share(demands, analysis, *a).total_cmp(&share(demands, analysis, *b))
                });
                let mut text = format!(
                    "the test fails: {:.4} of {:.4}, over by {:.4}; blocking {}",
                    analysis.demand,
                    analysis.bound,
                    -analysis.slack,
                    analysis.blocking.describe(&name),
                );
                if let Some(shortest) = shortest {
                    let _ = write!(text, " against a shortest deadline of {shortest}");
                }
                if let Some(task) = heaviest {
                    let load = &analysis.tasks[task];
                    let _ = write!(
                        text,
                        "; the largest share is {:.4} of {}: {} out, {} in, {} execution in {}. \
                         A longer period there, or a smaller footprint, would help",
                        share(demands, analysis, task),
                        name(task),
                        load.swap_out,
                        load.swap_in,
                        load.demand.saturating_sub(load.swap_out + load.swap_in),
                        demands[task].timing.deadline,
                    );
                }
                text
            }
        }
    }
}

fn share(demands: &[Demand], analysis: &Analysis, task: usize) -> f64 {
    analysis.tasks[task].demand.0 as f64 / demands[task].timing.deadline.0 as f64
}
