//! The rtswap agent without its exported symbols: those live in the cdylib, because a library
//! that exports `dlsym` would hijack its own test binaries.
//!
//! - [`cuda`], [`driver`]: the driver's words and the calls that the agent makes itself;
//! - [`memory`]: objects, chunks and the backing store of one GPU;
//! - [`vmm`]: physical memory and mappings that the program makes itself;
//! - [`gate`], [`enter`], [`device`], [`work`], [`writes`]: who may use the GPU now, what is in
//!   flight, and what it writes;
//! - [`ordered`], [`late`], [`outside`], [`ipc`]: memory in a stream's order, what a capture keeps from
//!   being freed, what is held beyond the arena, and the arena's in other processes;
//! - [`session`], [`signals`], [`swap`]: the daemon's end of things;
//! - [`cancel`], [`elf`], [`objects`], [`log`]: what a guest in other people's processes minds;
//! - [`tables`]: the driver's private tables, which no hook sees through;
//! - [`nvml`]: the same memory as NVIDIA's management library shows it;
//! - [`record`]: what the process did, written down for a profile;
//! - [`torture`]: swaps between every two calls, to find what breaks;
//! - [`agent`]: all of it, for this process; [`ops`], [`mapped`]: what the hooks ask of it.

pub mod agent;
pub mod cancel;
pub mod cuda;
pub mod device;
pub mod driver;
pub mod elf;
pub mod enter;
mod futex;
pub mod gate;
pub mod ipc;
pub mod late;
pub mod log;
pub mod mapped;
pub mod memory;
pub mod nvml;
pub mod objects;
pub mod ops;
pub mod ordered;
pub mod outside;
pub mod record;
pub mod session;
pub mod signals;
pub mod swap;
pub mod tables;
pub mod torture;
pub mod vmm;
pub mod work;
pub mod writes;
