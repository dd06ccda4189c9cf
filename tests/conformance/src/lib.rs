//! What rtswap believes about the CUDA driver, as cases that run unchanged on the simulated GPU and on a real one, so
//! that the model cannot drift from the thing.
//!
//! `cuda` are the driver's functions by name, `gpu` a GPU with the helpers that cases need, `case` a case and its row,
//! `cases` all of them, `run` runs them in processes that may crash or hang.
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "a case is made of unsafe calls: the macros say once why they are sound"
)]

pub mod case;
pub mod cases;
pub mod cuda;
pub mod gpu;
pub mod run;
