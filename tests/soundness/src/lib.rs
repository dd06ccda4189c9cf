//! A search for deadline misses in admitted sets.
//!
//! `case` is what is run, `model` a fast second implementation of the scheduling rules, `real`
//! drives the scheduler itself through the simulator, `verdict` has the admission tests, `search`
//! climbs towards late jobs, `copies` draws jobs that copy while they run, `refuted` lists the rules that the same search must refute: a search
//! that cannot find misses there would prove nothing by finding none here.
//!
//! Refuted rules exist in `model` only, which agrees with the scheduler job by job under the sound
//! rules. So the scheduler needs no switch that could ever turn a wrong rule on.

pub mod attack;
pub mod case;
pub mod copies;
pub mod model;
pub mod real;
pub mod refuted;
pub mod search;
pub mod verdict;
