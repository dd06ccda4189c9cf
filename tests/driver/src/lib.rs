//! NVIDIA's own driver libraries, without a GPU, as witnesses of what rtswap and its simulated driver believe:
//! `cargo xtask driver`.
//!
//! - [`debian`]: fetches the newest library of each branch; [`library`]: what lies there, with its exports;
//! - [`bindings`]: the driver's functions as NVIDIA declares them for Python;
//! - [`lookups`] and [`codes`]: what a library answers, as the program `driver-probe` prints it, which [`probe`] starts;
//! - [`reasons`]: differences between a real library and the simulated one that are as they should be, and why;
//! - [`nvml`]: what clients of NVML ask for; [`tables`]: the private tables that a driver hands out;
//! - [`check`]: the comparisons; [`report`]: what is printed.

pub mod bindings;
pub mod check;
pub mod codes;
pub mod debian;
pub mod library;
pub mod lookups;
pub mod nvml;
pub mod probe;
pub mod reasons;
pub mod report;
pub mod tables;
pub mod version;
