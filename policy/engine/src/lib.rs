//! All that the rtswap daemon decides, as one pure state machine: no clock, no thread, no file, no
//! descriptor, no hash order.
//!
//! [`Engine::handle`] takes one [`Input`] in, [`Engine::poll_output`] gives what follows, one
//! [`Output`] at a time, [`Engine::poll_timeout`] says when to come back. The same inputs at the same
//! times give the same outputs. `input` and `output` are its edge, `saved` what one daemon leaves for
//! the next, `engine` the decisions, over `registry`, `sessions`, `groups` and `ledger`; `status` is
//! what people may see; `config` and `sample` are what the shell reads from files and witnesses.
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
mod quota;
pub mod registry;
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
pub use quota::{Permit, Quota};
pub use uuid::{Uuid, UuidError};
