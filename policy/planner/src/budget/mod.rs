//! How long a job takes in less memory than its tensors need: a curve of time over budget, from any planner.
//!
//! Times hold for the [`Link`] that is given. For admission that is the link with both copy engines loaded, because the copies
//! of a job share them with the swaps of other tasks (docs/theory.md, section 11).

mod planners;

pub use planners::{Maker, NoPlan};

use alloc::vec::Vec;

use crate::graph::{Graph, TensorId};
use crate::machine::{Link, run};
use crate::plan::Plan;
use crate::validator::{PlanError, validate};

/// What plans are made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The size of the chunks that tensors are mapped in, in bytes, at least 1.
    pub chunk: u64,
    /// The link that a job's copies have.
    pub link: Link,
}

/// A job in a budget.
#[derive(Clone, Debug)]
pub struct Point {
    /// The GPU memory that the job takes, in bytes: all that its plan uses, initial residents included, in whole chunks.
    pub budget: u64,
    /// How long an iteration takes at most, in nanoseconds, with each step ending at a whole nanosecond.
    pub time_ns: u64,
    /// The host memory that the plan's copies take, in bytes: each tensor that it ever copies has a place there.
    pub host_bytes: u64,
    /// The planner that made the plan.
    pub maker: Maker,
    /// A plan that was proven to compute the graph.
    pub plan: Plan,
}

impl Point {
    /// None if the steps of the plan wait for each other.
    pub fn of(graph: &Graph, machine: &Machine, maker: Maker, plan: Plan) -> Option<Self> {
        let steps = plan.compute.len() + plan.swap_in.len() + plan.swap_out.len();
        let run = run(graph, &plan, machine.link)?;
        Some(Self {
            budget: plan.footprint().next_multiple_of(machine.chunk.max(1)),
            time_ns: run.total_ns + steps as u64 + 1,
            host_bytes: host_bytes(graph, &plan),
            maker,
            plan,
        })
    }
}

/// The fastest plan of all planners for each of these budgets, in bytes, by growing memory: only those that no other plan
/// beats in both memory and time. Empty if no planner comes down to any of them.
///
/// # Errors
/// A planner made a plan that does not compute the graph.
pub fn curve(graph: &Graph, machine: &Machine, budgets: &[u64]) -> Result<Vec<Point>, PlanError> {
    let mut points: Vec<Point> = Vec::new();
    let mut falling = budgets.to_vec();
    falling.sort_unstable_by(|one, other| other.cmp(one));
    for maker in Maker::ALL {
        for budget in falling.iter().copied() {
            // What a planner cannot do in this budget, it cannot in a smaller one either.
            let Ok(plan) = maker.plan(graph, budget, machine) else {
                break;
            };
            validate(graph, &plan)?;
            points.extend(Point::of(graph, machine, maker, plan));
        }
    }
    points.sort_by_key(|point| (point.budget, point.time_ns));
    let mut least = u64::MAX;
    points.retain(|point| {
        let is_faster = point.time_ns < least;
        least = least.min(point.time_ns);
        is_faster
    });
    Ok(points)
}

/// So many budgets, at least two, from the least that any operator needs to what the graph takes if nothing is swapped, or to
/// `most` bytes if that is less, in even steps of whole chunks. A budget is not there twice.
pub fn budgets(graph: &Graph, chunk: u64, most: u64, count: u32) -> Vec<u64> {
    let chunk = chunk.max(1);
    let (least, most) = (
        graph.largest(chunk).bytes / chunk,
        graph.peak(chunk).min(most) / chunk,
    );
    let steps = u64::from(count.max(2)) - 1;
    let step = |at: u64| least + (most.saturating_sub(least) * at).div_ceil(steps);
    let mut budgets: Vec<u64> = (0..=steps).map(|at| step(at) * chunk).collect();
    budgets.dedup();
    budgets
}

fn host_bytes(graph: &Graph, plan: &Plan) -> u64 {
    let copied_in = plan.swap_in.iter().map(|swap| swap.place.tensor);
    let copied_out = plan.swap_out.iter().map(|swap| swap.tensor);
    let mut copied: Vec<TensorId> = copied_in.chain(copied_out).collect();
    copied.sort_unstable();
    copied.dedup();
    let bytes = copied.into_iter().map(|id| graph.tensor(id).bytes);
    bytes.sum()
}
