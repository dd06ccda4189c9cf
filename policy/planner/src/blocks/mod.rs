//! SwapNet (Wang, Cao, Zhou and Li, 2024): inference in blocks that come from storage under a memory budget.
//!
//! [`ModelInfo`] has the layers of a graph, [`Coefficients`] what a device takes for them ([`fit`] measures them), and
//! [`Costs`] what each possible block takes. [`partition`] finds the blocks, [`LookupTable`] keeps them for budgets that
//! change, [`BlockPlanner`] makes a plan of them, and [`divide`] gives several models their budgets.

mod arena;
mod costs;
mod delays;
mod emit;
mod info;
mod lookup;
mod partition;
mod search;
mod share;

pub use costs::{Block, Costs};
pub use delays::{Coefficients, Execution, Sample, fit};
pub use emit::BlockPlanner;
pub use info::{Layer, ModelInfo};
pub use lookup::LookupTable;
pub use partition::Partition;
pub use search::{MORE_BLOCKS, partition, partition_into};
pub use share::{Demand, divide};
