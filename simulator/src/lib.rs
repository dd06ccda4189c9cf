//! Virtual clock and GPU model that drive the same [`rtswap_policy::scheduler::Scheduler`] as
//! the daemon.
//!
//! `scenario` is what to simulate, `world` steps from one instant to the next, `agent` is what
//! a program and its agent do, `report` what came of it. `record` is what can be watched
//! meanwhile. Nothing is random but for the seed that the scenario carries.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agent;
mod clock;
mod error;
pub mod record;
pub mod report;
mod rng;
pub mod scenario;
mod world;

pub use error::{ScenarioError, SimError};
pub use record::{Change, Moved, Observer, Record, SwapRecord, Violation};
pub use report::{Report, TaskReport};
pub use rng::Rng;
pub use scenario::{Arrivals, Checks, Departure, Execution, Scenario, SimTask};
pub use world::{observe, run};
