//! How long a plan takes on a GPU with one compute engine and one copy engine for each direction.

mod roofline;
mod run;

pub use roofline::{Arithmetic, Roofline};
pub use run::{Link, Run, observe, run};
