//! The swap thread: the only thread of ours that stays. It listens to doorbells, the socket and a
//! clock, and on any of them reads the page again.
//! `start` makes it by `detached`, `thread` is its loop, `requests` does what the page asks, `reconnect` finds the next daemon.

mod detached;
mod reconnect;
mod requests;
mod start;
mod thread;

pub use reconnect::Orphan;
pub use requests::Requests;
pub use start::{Started, spawn};

#[cfg(test)]
mod tests;
