//! What may be typed behind `rtswapctl graph`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use rtswap_taskset::{Fault, parse_size};

/// What is done with a dataflow graph.
#[derive(Debug, Subcommand)]
pub enum GraphCommand {
    /// Show what a graph computes, and how much memory it takes
    Info(GraphInfoOptions),
    /// Make a plan that swaps tensors so that the graph runs fast in less memory
    Plan(GraphPlanOptions),
    /// Run a plan on a simulated GPU, or what swapping without a search would do
    Simulate(GraphSimulateOptions),
}

/// Which graph is shown, and how.
#[derive(Debug, Args)]
pub struct GraphInfoOptions {
    /// The graph, in JSON, which may be compressed by gzip; - reads standard input
    #[arg(value_name = "GRAPH")]
    pub graph: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which graph is planned, and how. The GPU is a V100 of 16 GB on PCIe 3.0.
#[derive(Debug, Args)]
#[command(
    after_help = "Operators take what a roofline of NVIDIA's V100 says, unless the graph has their times; copies take what PCIe 3.0 \
                  does, 12 GB/s in one direction and 10 GB/s in each of two. Memory is divided into chunks of 2 MiB; the planner blocks \
                  divides it as it likes. Ctrl-C ends the search and keeps the best plan so far."
)]
pub struct GraphPlanOptions {
    /// The graph, in JSON, which may be compressed by gzip; - reads standard input
    #[arg(value_name = "GRAPH")]
    pub graph: PathBuf,
    /// The GPU memory that the job may use, such as 6GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub budget: u64,
    /// What makes the plan
    #[arg(long, value_enum, default_value_t)]
    pub planner: Planner,
    /// How long the search takes, in seconds
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        conflicts_with = "generations"
    )]
    pub seconds: u32,
    /// Search for so many generations, however long they take: the same plan each time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub generations: Option<u64>,
    /// Decides what the search tries
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The threads that search; with --generations the plan does not depend on their number [default: the CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Print the plan file, in JSON
    #[arg(long)]
    pub json: bool,
    /// Draw a timeline
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
}

/// What is run. The GPU is a V100 of 16 GB on PCIe 3.0.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").args(["plan", "budget"]).required(true)),
    after_help = "With --budget there is a row for infinite memory, for swapping on demand, where each miss waits for its copy, for \
                  swapping on demand with prefetches, and for the best plan of the planner advisor before any search, all of \
                  them in the graph's own order of operators."
)]
pub struct GraphSimulateOptions {
    /// The graph, in JSON, which may be compressed by gzip; - reads standard input
    #[arg(value_name = "GRAPH")]
    pub graph: PathBuf,
    /// Run this plan, of rtswapctl graph plan --json
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Without a plan: run in so much GPU memory, such as 6GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub budget: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Draw a timeline, of the last row
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
}

/// What makes a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Planner {
    /// SwapAdvisor's genetic search, over chunks and with schedules that are mended
    #[default]
    Advisor,
    /// TENSILE's, at once: only what is back in time swaps, and operators run again where that saves too little
    Tensile,
    /// SwapNet's, for inference: parameters come in blocks, two of which are in GPU memory
    Blocks,
    /// All of them, and the fastest plan counts
    Best,
}

impl Planner {
    /// As plan files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Advisor => "advisor",
            Self::Tensile => "tensile",
            Self::Blocks => "blocks",
            Self::Best => "best",
        }
    }
}

fn bytes(text: &str) -> Result<u64, Fault> {
    Ok(parse_size(text)?.0)
}
