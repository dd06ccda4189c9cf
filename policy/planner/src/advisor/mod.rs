//! SwapAdvisor (Huang, Jin and Li, ASPLOS 2020): which tensors of a job swap, and when.
//!
//! A [`Pools`] divides the budget into objects of a few sizes. A [`Planner`] makes the plan for one schedule and one division.
//! [`search`] looks for a better schedule and division.

pub mod arena;
pub mod planner;
pub mod pools;
mod ready;
mod rng;
pub mod search;

pub use planner::{Infeasible, Planner, Settings};
pub use pools::Pools;
pub use search::{Breeding, Individual, Search};
