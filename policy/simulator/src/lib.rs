//! Virtual clock and GPU model that drive the same [`rtswap_policy::scheduler::Scheduler`] as
//! the daemon.
//!
//! `scenario` is what to simulate, `script` what a job does that copies while it runs, `world` steps from one instant to the next, `agent` is what
//! a program and its agent do, `report` what came of it. `record` is what can be watched
//! meanwhile, by `stats` and by the pictures of `export`. `workload` has programs as people run them,
//! `baseline` other policies for best-effort. Nothing is random but for the seed that the scenario carries.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agent;
pub mod baseline;
mod clock;
mod error;
pub mod export;
pub mod record;
pub mod report;
mod rng;
pub mod scenario;
pub mod script;
pub mod stats;
pub mod workload;
mod world;

pub use error::{ScenarioError, SimError};
pub use export::Timeline;
pub use record::{Burst, Change, Moved, Observer, Record, SwapRecord, Violation};
pub use report::{Report, TaskReport};
pub use rng::Rng;
pub use scenario::{Arrivals, Checks, Departure, Execution, Scenario, SimTask};
pub use script::{After, Link, Script};
pub use stats::{Responses, Summary};
pub use world::{observe, observe_with, run};
