//! Looking for misses: `generate` draws cases, `mutate` varies one, `settle` keeps them possible,
//! `tighten` moves a set to the edge of an admission test, `climb` follows lateness uphill, and
//! `shrink` makes what was found small.

mod climb;
mod generate;
mod mutate;
mod settle;
mod shrink;
mod tighten;

pub use climb::{Driver, Found, Goal, Hunter};
pub(crate) use generate::number;
pub use generate::{Kind, draw};
pub use mutate::mutate;
pub use settle::settle;
pub use shrink::shrink;
pub(crate) use shrink::size;
pub use tighten::{tighten, tighten_one};
