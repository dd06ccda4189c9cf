//! The daemon as a process, with agents and clients over its real sockets, and on a real bus.

mod agents;
#[path = "../bus/mod.rs"]
mod bus;
mod common;
mod demand;
mod enforce;
mod greedy;
mod introspection;
mod policy;
mod refusals;
mod restart;
mod starved;
mod strangers;
