//! The system calls that need `unsafe`, and thin safe shells over descriptors. Nothing here knows
//! of tasks.

pub mod bpf;
pub mod clock;
pub mod cuda;
pub mod descriptor;
pub mod heap;
pub mod namespace;
pub mod packet;
pub mod page;
pub mod peer;
pub mod poll;
pub mod signal;
