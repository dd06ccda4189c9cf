//! The functions by area.

mod device;
mod library;
mod memory;
mod processes;
mod unsupported;
mod utilization;
