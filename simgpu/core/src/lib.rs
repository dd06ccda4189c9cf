//! A GPU for machines that have none.
//!
//! Real processes, real bytes and real waiting; only the silicon is modelled.
//! The simulated machine is one file that all processes map ([`machine`]);
//! what one process sees of it through the CUDA driver interface is
//! [`driver`]. Tests and benchmarks look in from outside through [`Observer`].

#![allow(
    clippy::cast_ptr_alignment,
    reason = "the layout aligns what lies in the shared file, and device addresses are checked"
)]

pub mod config;
pub mod driver;
pub mod machine;

mod clock;
mod error;
mod hostrate;
mod mig;
mod observe;

pub use error::{Error, Result};
pub use hostrate::host_copy_bytes_per_s;
pub use machine::Lately;
pub use mig::Board;
pub use observe::{GpuUsage, Holder, Observer, ProcessUsage};
