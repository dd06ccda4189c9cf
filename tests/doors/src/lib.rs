//! The doors suite: small C programs under the agent, each of which goes through one door of the
//! driver or steps into one trap. The runner has the daemon's half of the wire in its own hands: it
//! takes a program's memory away where the program is weakest, and gives it back.
//!
//! - [`table`]: the probes by area; the programs are in `probes/`;
//! - [`build`]: compiles them; [`stage`]: the machine that one runs on; [`guest`]: the one that runs;
//! - [`life`]: the probes of life in other people's processes;
//! - [`check`]: what is done to a probe, and what then counts as caught, counted or inert;
//! - [`names`]: what becomes of each name that a driver exports;
//! - [`signature`]: how each of them is called, by its declaration and by the agent's hooks;
//! - [`stub`]: a driver that notes how it is called, and a program that calls every hook;
//! - [`suite`]: all of them, two at a time; [`under`]: those that no tool can run; [`ran`]: which
//!   hooks ran; [`report`]: what is printed.

pub mod build;
pub mod check;
pub mod guest;
pub mod life;
pub mod names;
pub mod ran;
pub mod report;
pub mod signature;
pub mod stage;
pub mod stub;
pub mod suite;
pub mod table;
pub mod under;
