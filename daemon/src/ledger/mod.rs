//! The account of a GPU's memory, from three witnesses that do not know of each other: the driver
//! (NVML), eBPF probes on its library, and the agents. `account` lays them side by side, `probed` is
//! the probes' part of it, `witness` names where an agent differs from the others, `strangers` who has
//! none, `capacity` makes mᴰ of what is left, `dead` knows when a dead process's memory is gone,
//! `grace` when nobody tells. Pure: samples, claims and time are arguments.

mod account;
mod capacity;
mod dead;
mod finding;
mod grace;
mod probed;
mod strangers;
mod witness;

pub use account::{Account, Terms};
pub use capacity::Capacity;
pub use dead::{Dead, Departed, Look, depart};
pub use finding::Finding;
pub use grace::Graces;
pub use probed::{Baseline, Entry, Probed};
pub use witness::{Claim, Disagreement};
