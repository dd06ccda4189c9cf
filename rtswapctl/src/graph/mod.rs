//! `rtswapctl graph`: how one model runs in less GPU memory than its tensors take, because it swaps while it runs.
//!
//! `file` reads graphs and plans, `search` looks for a plan on several threads, `made` makes one at once, `figures` is what a run comes to, `text` shows
//! that to people. `info`, `plan` and `simulate` are the commands.

mod figures;
mod file;
mod info;
mod made;
mod plan;
mod search;
mod simulate;
mod text;

pub(crate) use file::graph as read;

use rtswap_planner::machine::{Link, Roofline};

use crate::cli::GraphCommand;
use crate::failure::Failure;

/// The GPU that operators without a measured time run on.
const ROOFLINE: Roofline = Roofline::V100;

/// The link that tensors are copied over.
const LINK: Link = Link::PCIE3;

/// The chunks that GPU memory is divided into, in bytes: the least that CUDA maps.
const CHUNK: u64 = rtswap_taskset::GRANULARITY.0;

/// What the figures hold for.
const MACHINE: &str = "by the times of the graph or else of a V100 (16 GB), on PCIe 3.0";

/// Does what is asked with a graph.
pub(crate) fn graph(command: &GraphCommand) -> Result<(), Failure> {
    match command {
        GraphCommand::Info(options) => info::info(options),
        GraphCommand::Plan(options) => plan::plan(options),
        GraphCommand::Simulate(options) => simulate::simulate(options),
    }
}
