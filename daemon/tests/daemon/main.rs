//! The daemon as a process, with agents and clients over its real sockets.

mod agents;
mod common;
mod introspection;
mod refusals;
mod restart;
mod strangers;
