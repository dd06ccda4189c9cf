//! The functions by area.

mod device;
mod library;
mod memory;
mod mig;
mod processes;
mod unsupported;
mod utilization;
