//! The scheduling policy of rtswap, pure: no clock, no thread, no file, no hash order.
//!
//! Time, sizes and text are arguments. The daemon and the simulator are shells around
//! [`scheduler::Scheduler`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
pub mod assign;
pub mod cost;
mod fraction;
pub mod scheduler;
pub mod task;
pub mod units;
