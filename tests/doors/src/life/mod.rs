//! Living in other people's processes: what threads, forks, exits, limits, sandboxes, environments and
//! other libraries do to the agent, and that it does nothing to them.
//!
//! What `rtswap-e2e` tries already is not repeated here: signals of the program's own (`signals.c`), every
//! descriptor closed (`closer.c`), preloaded interposers (`interposer.c`), a task killed at any moment
//! (`kills.rs`), a daemon that dies (`daemon_life.rs`).

mod around;
mod driver;
mod ends;
mod foreign;
mod held;
mod run;
mod table;

pub(crate) use table::PROBES;
