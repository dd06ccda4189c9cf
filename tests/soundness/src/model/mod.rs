//! A second, independent implementation of the scheduling rules, small and fast: integers, no
//! agents, no daemon. `run` steps from event to event, `serve` decides, `memory` moves chunks,
//! `rules` says by which rules. tests/differential.rs holds it against the real scheduler.

mod memory;
mod rules;
mod run;
mod serve;

pub use rules::{Compute, Early, Mode, Opens, Rules, Transition};
pub use run::{Engine, Finished, Outcome, Residency};
