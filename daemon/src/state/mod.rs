//! What a daemon leaves for the next, in the runtime folder: `state`, a checkpoint of the whole, and
//! `state.journal`, one line for each record after it. `shape` is the JSON of both, `journal` appends
//! and reads lines, `checkpoint` replaces the whole on a thread of its own, `keeper` keeps them
//! together.

mod checkpoint;
mod journal;
mod keeper;
mod shape;

pub use keeper::Keeper;
