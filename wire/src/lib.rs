//! The swap path between `rtswapd` and the agents: layouts and their handshakes, nothing else.
//!
//! - [`hello`]: the messages on the agent socket, fixed-size little structs;
//! - [`page`]: the control page, one per session, shared memory made of atomics;
//! - [`doorbell`]: the signal value that tells a doorbell from a program's own signal.
//!
//! The page is the truth, a doorbell only a wake-up: every doorbell may be lost, merged or forged
//! without harm. Each side treats the other's fields as hostile: load once, check, convert.
//!
//! What keeps two versions compatible: the page and the messages grow only by appending behind
//! feature bits; reserved bytes and bits are zero and are checked; offsets are asserted at compile
//! time. The daemon speaks [`VERSION`] and the one before it.
#![cfg_attr(not(loom), no_std)]
#![forbid(unsafe_code)]

pub mod doorbell;
pub mod hello;
pub mod page;
mod sync;

/// The wire version that this crate describes.
pub const VERSION: u16 = 1;

/// The oldest wire version that the daemon still speaks.
pub const OLDEST_VERSION: u16 = 1;

/// GPUs that one control page can serve.
pub const MAX_DEVICES: usize = 8;

/// The longest task name in bytes.
pub const MAX_NAME: usize = 63;

/// Whether `name` may name a task: 1 to 63 of `A–Z a–z 0–9 . _ -`.
pub fn valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
