//! Every decision that the rtswap daemon makes, as one pure state machine: no clock, no thread, no file,
//! no descriptor, no iteration in hash order.
//!
//! [`Engine::handle`] accepts one [`Input`]; [`Engine::poll_output`] returns its consequences, one
//! [`Output`] at a time; [`Engine::poll_timeout`] returns when to call again. The same inputs at the same
//! times give the same outputs.
//!
//! `input` and `output` are the interface, and `saved` is what one daemon leaves for the next. `engine`
//! makes the decisions over `registry`, `sessions`, `groups` and `ledger`;
//! `owners` says who answers for a process, `rules` what the administrator's policy says of users and tasks. `status` is what users see.
//! `config` and `sample` are what the shell reads from configuration files, NVML and the probes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
mod engine;
mod error;
pub mod groups;
mod ids;
pub mod input;
pub mod ledger;
pub mod output;
pub mod owners;
pub mod registry;
pub mod rules;
pub mod sample;
pub mod saved;
mod sessions;
pub mod status;
mod timers;
mod uuid;

pub use engine::Engine;
pub use error::CallError;
pub use ids::{CallId, Claimant, ConnectionId, Cookie, RegistrationId};
pub use input::Input;
pub use output::Output;
pub use uuid::{Uuid, UuidError};
