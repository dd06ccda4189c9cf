//! What eBPF probes on the CUDA driver count: the bytes that each process asks the driver for,
//! with an agent or without. `libraries` knows the drivers of each process, `scan` looks, each owner in its
//! turn by `turns`, `files` opens what it finds, `library` finds a driver's functions in its file and
//! `prologue` the instruction to probe, `attach` puts the programs there, by `multi` where the kernel can, `read` reads what they count, `sweep` removes,
//! in a thread of its own, what the dead leave and `shares` gives it back to its owner, as `subordinates` names owners; `watch` keeps it all together, `thread` drives it, beside the dispatch
//! thread.

mod attach;
mod files;
mod libraries;
mod library;
mod multi;
mod problem;
mod prologue;
mod read;
mod scan;
mod shares;
mod subordinates;
mod sweep;
mod tally;
mod thread;
mod turns;
mod watch;

pub use library::{Place, functions};
pub use multi::Multi;
pub use problem::Problem;
pub use shares::Shares;
pub use thread::{Prober, spawn};
