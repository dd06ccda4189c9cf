//! What eBPF probes on the CUDA driver count: the bytes that each process asks the driver for,
//! with an agent or without. `libraries` knows the drivers of each process, `scan` looks, `library` finds
//! a driver's functions in its file and `prologue` the instruction to probe, `attach` puts the
//! programs there, by `multi` where the kernel can, `read` reads what they count, `sweep` removes
//! what the dead leave; `watch` keeps it all together, `thread` drives it, beside the dispatch
//! thread.

mod attach;
mod libraries;
mod library;
mod multi;
mod problem;
mod prologue;
mod read;
mod scan;
mod sweep;
mod tally;
mod thread;
mod watch;

pub use library::{Place, functions};
pub use multi::Multi;
pub use problem::Problem;
pub use thread::{Prober, spawn};
