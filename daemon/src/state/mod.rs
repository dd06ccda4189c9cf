//! The state that a daemon leaves for the next one, in the runtime folder: `state`, a checkpoint of the
//! whole, and `state.journal`, one line for each record since. `shape` is the JSON of both, `journal`
//! appends and reads lines, `checkpoint` replaces the whole on a thread of its own, `keeper` combines
//! them. And, in files of their own, the `calibrations` of GPUs and the `policy` as it was set at run time.

mod calibrations;
mod checkpoint;
mod journal;
mod keeper;
mod policy;
mod shape;

pub use calibrations::Calibrations;
pub(crate) use calibrations::parse as parse_calibration;
pub use keeper::Keeper;
pub(crate) use policy::RunTimeRules;
