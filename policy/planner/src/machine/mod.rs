//! How long a plan takes: `run` has one job on a GPU with a copy engine for each direction, `shared` several jobs that share
//! one link.

mod roofline;
mod run;
mod shared;

pub use roofline::{Arithmetic, Roofline};
pub use run::{Link, Run, observe, run};
pub use shared::{Director, Gpu, Iteration, Sharer, Then, share};
