//! How long a plan takes on a GPU with one compute engine and one copy engine for each direction.

mod run;

pub use run::{Link, Run, observe, run};
