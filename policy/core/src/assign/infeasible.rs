//! Why no volumes pass, in words and numbers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::{Assignment, Demand};
use crate::admission::{Analysis, Test};
use crate::units::Bytes;

/// Why no swap volumes satisfy memory and test for a chunk size δ. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Infeasible {
    /// The task at index `task` alone needs more than `capacity`, mᴰ: in whole chunks of size `chunk`
    /// its footprint is `footprint`.
    TooLarge {
        task: usize,
        footprint: Bytes,
        capacity: Bytes,
        chunk: Bytes,
    },
    /// One task and the unswappable memory of the others do not fit. `overflow` is Σm − mᴰ,
    /// `swappable` is the most that can be out while any one task is in, Σmˢ − max mˢ, both in whole
    /// chunks of size `chunk`.
    NotSwappable {
        overflow: Bytes,
        swappable: Bytes,
        chunk: Bytes,
    },
    /// The tasks cannot give best-effort its room: `overflow` must be out while none of them runs, and
    /// `swappable`, Σmˢ, is the most that can be, both in whole chunks of size `chunk`.
    NotIdle {
        overflow: Bytes,
        swappable: Bytes,
        chunk: Bytes,
    },
    /// Backing stores and the copies that jobs make need `needed` bytes of host memory, and there are `host`. Only of
    /// [`super::assign_choices`].
    NotBacked { needed: Bytes, host: Bytes },
    /// The memory suffices, but the admission test fails. Holds the last volumes that were tried, with
    /// the analysis of the test.
    NotSchedulable(Box<Assignment>),
}

impl Infeasible {
    /// Whether this is the better account of why there is none than `other`, of another δ: a test
    /// that fails says more than memory that is lacking, and one that fails by less is closer.
    pub(super) fn closer(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NotSchedulable(this), Self::NotSchedulable(other)) => {
                this.analysis.demand < other.analysis.demand
            }
            (Self::NotSchedulable(_), _) => true,
            _ => false,
        }
    }

    /// In words and numbers, what binds and what would help; names by `name`.
    pub fn describe<'a>(&self, demands: &[Demand], name: impl Fn(usize) -> &'a str) -> String {
        match self {
            Self::TooLarge {
                task,
                footprint,
                capacity,
                chunk,
            } => {
                let declared = demands[*task].memory.footprint;
                // Its own size is reason enough, unless only whole chunks make it too large.
                let (needs, rounded) = if declared > *capacity {
                    (declared, String::new())
                } else {
                    (*footprint, format!(" in whole chunks of {chunk}"))
                };
                let [needs, capacity] = apart([needs, *capacity]);
                format!(
                    "{} needs {needs} at once{rounded} and {capacity} can be handed out: it does \
                     not fit on this GPU even alone",
                    name(*task)
                )
            }
            Self::NotSwappable {
                overflow,
                swappable,
                chunk,
            } => {
                let lacking = overflow.saturating_sub(*swappable);
                let [overflow, swappable] = apart([*overflow, *swappable]);
                format!(
                    "in whole chunks of {chunk}, {overflow} must be out while any one task is in, \
                     but only {swappable} of the others can leave: {lacking} more must be \
                     swappable, or the footprints that much smaller"
                )
            }
            Self::NotIdle {
                overflow,
                swappable,
                chunk,
            } => {
                let [overflow, swappable] = apart([*overflow, *swappable]);
                format!(
                    "in whole chunks of {chunk}, {overflow} must be out while none of the tasks runs, \
                     but only {swappable} can leave"
                )
            }
            Self::NotBacked { needed, host } => {
                let [needed, host] = apart([*needed, *host]);
                format!(
                    "backing stores and the copies inside jobs need {needed} of host memory, and there \
                     are {host}"
                )
            }
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

/// Two sizes that differ, in texts that do.
fn apart(sizes: [Bytes; 2]) -> [String; 2] {
    let texts = sizes.map(|size| format!("{size}"));
    if texts[0] == texts[1] {
        return sizes.map(|size| format!("{} bytes", size.0));
    }
    texts
}

/// What of a failed test binds.
fn binding<'a>(demands: &[Demand], analysis: &Analysis, name: impl Fn(usize) -> &'a str) -> String {
    let blocking = format!("a blocking of {}", analysis.blocking.describe(name));
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
