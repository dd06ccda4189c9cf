//! What the probe programs (`ebpf/probes`) and the daemon that loads them agree on, and nothing else.
//!
//! - [`records`]: what lies in the maps and rings, integers only;
//! - [`maps`]: their names, and which of them a dead process leaves to be swept;
//! - [`functions`]: the driver's functions and the programs that belong on each.
//!
//! **The byte counters are the truth** ([`records::Bytes`] by [`records::Account`]), the rings are
//! news: a lost record never loses a byte. What could not be followed is counted as such
//! ([`records::Process`]), so that a reader knows between which bounds the truth lies.
//!
//! Both sides are built from the same sources; there are no versions to keep apart.
#![no_std]
#![deny(unsafe_code)]

pub mod functions;
pub mod maps;
pub mod records;

#[cfg(feature = "aya")]
mod pod;
