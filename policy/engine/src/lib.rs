//! All that the rtswap daemon decides, as one pure state machine: no clock, no thread, no file, no
//! descriptor, no hash order.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod groups;
pub mod ledger;
pub mod sample;
mod uuid;
