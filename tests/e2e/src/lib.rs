//! The bench on which the end-to-end tests stand: a simulated machine of its own for each test, real
//! processes on it, and bounded waits.
//!
//! `cargo xtask test` builds what the tests start; after a plain `cargo build --workspace` a single
//! one runs with `cargo test -p rtswap-e2e --test NAME`.

mod host;
mod judged;
mod machine;
mod namespace;
mod program;
mod puppet;
mod shell;
mod stalls;
mod tracefs;
mod witness;

pub use host::{MemoryCgroup, available_memory};
pub use judged::{Verdict, unless_stalled, until_judged};
pub use machine::{Daemon, Machine, MachineOptions};
pub use namespace::is_initial_pid_namespace;
pub use program::{Finished, Program, compile, probe, tortures, wait_until};
pub use puppet::{Offer, Puppet, Swapped};
pub use stalls::{Stalls, logged_at};
pub use tracefs::tracefs;
pub use witness::Counted;
