//! Rooms together: scenes with cooperative agents, and sequences of events from hostile ones.

mod hostile;
mod liars;
mod pipelined;
mod plans;
mod regrouped;
mod room;
mod scenes;
mod sharing;
mod shell;
