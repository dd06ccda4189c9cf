//! Fig. 6 and Fig. 7: training throughput as a share of what infinite memory would give.

use anyhow::Result;
use rtswap_planner::advisor::{Breeding, Lead, Pools, founders, random_schedule};
use rtswap_planner::machine::{Roofline, Run};

use super::BUDGET;
use super::models::Model;
use super::search::{Effort, Prepared, on_demand_run, search};

/// The runs of one model with one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// An iteration with infinite memory, in nanoseconds.
    pub ideal_ns: u64,
    /// ODSwap in the order in which PyTorch ran the operators.
    pub on_demand: Run,
    /// ODSwap in a random order, as MXNet's scheduler gives it.
    pub on_demand_random: Run,
    /// SwapAdvisor's own search from random individuals; none where no division into pools was found that holds the
    /// largest operator.
    pub pools: Option<Run>,
    /// Our search from random individuals.
    pub random: Option<Run>,
    /// Our search from PyTorch's order.
    pub trace: Option<Run>,
}

impl Shares {
    /// A run's share of the ideal throughput, from 0 to 1.
    pub fn of(&self, run: Run) -> f64 {
        self.ideal_ns as f64 / run.total_ns as f64
    }
}

/// Searches plans for a model; SwapAdvisor's own search runs for `paper`, ours for `ours`.
pub fn shares(
    model: &Model,
    batch: u32,
    roofline: &Roofline,
    paper: Effort,
    ours: Effort,
) -> Result<Shares> {
    let prepared = Prepared::new(model.graph(batch, roofline)?);
    let problem = prepared.problem(BUDGET);
    let any_order = random_schedule(problem.order, ours.seed);
    let first = founders(&problem);
    Ok(Shares {
        ideal_ns: prepared.graph.compute_ns(),
        on_demand: on_demand_run(problem, &prepared.trace())?,
        on_demand_random: on_demand_run(problem, &any_order)?,
        pools: search::<Pools>(problem, Breeding::PAPER, Vec::new(), paper, |_, _| ())?,
        random: search::<Lead>(problem, Breeding::OURS, Vec::new(), ours, |_, _| ())?,
        trace: search::<Lead>(problem, Breeding::OURS, first, ours, |_, _| ())?,
    })
}
