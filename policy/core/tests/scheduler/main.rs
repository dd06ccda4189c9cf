//! The scheduler in one modelled world: scenes with cooperative agents, sequences of events from
//! hostile ones, and what a decision allocates.

mod allocations;
mod changed;
mod host;
mod hostile;
mod idle;
mod liars;
mod parked;
mod pipelined;
mod plans;
mod regrouped;
mod requests;
mod room;
mod scene;
mod scenes;
mod sharing;
mod turns;
mod undrained;
mod world;
