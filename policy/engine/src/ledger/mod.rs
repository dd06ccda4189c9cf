//! The account of GPU memory per process, kept from three witnesses that do not know of each other:
//! the driver (NVML), eBPF probes on its library, and the agents. `account` compares them on one
//! GPU. It is built of `nvml` (what NVML shows), `probed` (what the probes count), `managed` (a
//! process and what its agent reports) and `residue` (memory of no process); `capacity` turns
//! what is left into mᴰ. `dead` decides when the memory of dead processes is free again.
//! Pure: samples, claims and time are arguments. Imports run one way, down to `claim` and
//! `finding`.

mod account;
mod capacity;
mod claim;
mod dead;
mod finding;
mod managed;
mod nvml;
mod probed;
mod residue;
#[cfg(test)]
mod tests;

pub use account::{Account, Terms};
pub use claim::Claim;
pub use dead::{Dead, Departed, Graces, Look, take_departed};
pub use finding::{Disagreement, Finding};
pub use probed::{Baseline, ProbeEntry, Probed};
