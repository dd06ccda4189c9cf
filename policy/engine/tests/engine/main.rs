//! The engine between modelled agents, control pages, NVML and clients, in virtual time: at random,
//! through the end of the daemon at any output, replayed, and in steady state.

mod allocations;
mod crashes;
mod harness;
mod random;
mod replay;
mod scripts;
mod starved;
