//! The agents: `session` is one with its process, `block` tells what is new in a GPU's block of
//! its control page.

mod block;
mod session;

pub(crate) use block::{BlockReader, EndedSwap};
pub(crate) use session::{Device, Session, SessionId, Sessions};
