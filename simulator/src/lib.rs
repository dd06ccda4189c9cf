//! Virtual clock and GPU model that drive the same [`rtswap_policy::scheduler::Scheduler`] as
//! the daemon.
//!
//! `scenario` is what to simulate, `world` steps from one instant to the next, `agent` is what
//! a program and its agent do, `report` what came of it. Nothing is random but for the seed that
//! the scenario carries.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agent;
mod clock;
pub mod report;
mod rng;
pub mod scenario;
mod world;

pub use report::{Report, TaskReport};
pub use rng::Rng;
pub use scenario::{Arrivals, Scenario, SimTask};
pub use world::{SimError, run};
