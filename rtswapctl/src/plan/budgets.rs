//! Tasks that are planned from graphs: their budgets, with the plans of their jobs, and the volumes and δ of all tasks together.

use std::iter;
use std::path::PathBuf;

use rtswap_planner::budget::{Machine, Point, budgets, curve};
use rtswap_planner::graph::Graph;
use rtswap_planner::machine::Link;
use rtswap_planner::validator::PlanError;
use rtswap_policy::admission::Test;
use rtswap_policy::assign::{
    Assignment, Choice, Choices, Demand, Infeasible, Objective, assign_choices,
};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::task::{MemoryProfile, Timing};
use rtswap_policy::units::{Bytes, Nanos};
use rtswap_taskset::graph::GraphFile;
use rtswap_taskset::{Advice, GRANULARITY, GraphTask, MAX_PERIOD, TaskSet, advise};

use crate::failure::Failure;

/// The budgets that are tried for a graph.
const BUDGETS: u32 = 12;

/// The largest δ that is tried where the set names none: with larger ones the many small tensors of a graph waste its budget.
const MOST_CHUNK: u64 = 32 << 20;

/// A task that swaps inside its jobs, in the budget that was chosen.
#[derive(Debug)]
pub(crate) struct InJob {
    /// Its place in the set.
    pub(crate) task: usize,
    /// The file of its graph.
    pub(crate) path: PathBuf,
    pub(crate) graph: GraphFile,
    /// The bytes that it takes beside its tensors.
    pub(crate) context: Bytes,
    /// Its budget, with its plan.
    pub(crate) point: Point,
    /// What its tensors take if none is swapped, in bytes.
    pub(crate) whole: u64,
}

/// What was chosen for a set.
pub(super) struct Budgeted {
    /// The set, with δ, and C and the memory of each task.
    pub(super) set: TaskSet,
    pub(super) result: Result<Assignment, Infeasible>,
    /// The tasks that are planned from graphs, in the order of the file.
    pub(super) in_job: Vec<InJob>,
}

/// Chooses budgets, volumes and δ. `graphs` are in the order of [`TaskSet::graphs`].
pub(super) fn choose(
    mut set: TaskSet,
    graphs: Vec<(PathBuf, GraphFile)>,
    test: Test,
    objective: Objective,
) -> Result<Budgeted, Failure> {
    let chunks: Vec<Bytes> = match set.gpu.chunk {
        Some(chunk) => vec![chunk],
        None => iter::successors(Some(GRANULARITY), |chunk| Some(Bytes(chunk.0 * 2)))
            .take_while(|chunk| chunk.0 <= MOST_CHUNK.min(set.gpu.capacity.0))
            .collect(),
    };
    let (paths, graphs): (Vec<PathBuf>, Vec<GraphFile>) = graphs.into_iter().unzip();
    let curves = curves(&set, &graphs, &chunks).map_err(Failure::BadPlan)?;
    let (chunks, mut curves): (Vec<Bytes>, Vec<Vec<Vec<Point>>>) = iter::zip(chunks, curves)
        .filter(|(_, curves)| curves.iter().all(|curve| !curve.is_empty()))
        .unzip();
    let choices: Vec<Choices> = iter::zip(&chunks, &curves)
        .map(|(chunk, curves)| Choices {
            platform: set.platform(test, *chunk),
            tasks: ways(&set, curves),
        })
        .collect();
    let (room, host) = (set.gpu.capacity, host(&set));
    let chosen = assign_choices(test, &choices, room, host, objective).ok_or(Failure::NoPlan)?;
    set.gpu.chunk = Some(chunks[chosen.at]);
    let curves = curves.swap_remove(chosen.at);
    let mut in_job = Vec::new();
    for (at, ((curve, path), graph)) in curves.into_iter().zip(paths).zip(graphs).enumerate() {
        let of = &set.graphs[at];
        let way = chosen.ways[of.task];
        let demand = choices[chosen.at].tasks[of.task][way].demand;
        let task = &mut set.tasks[of.task];
        (task.timing, task.memory) = (demand.timing, demand.memory);
        in_job.push(InJob {
            task: of.task,
            path,
            context: of.context,
            whole: graph.graph.peak(chunks[chosen.at].0),
            graph,
            point: curve.into_iter().nth(way).ok_or(Failure::NoPlan)?,
        });
    }
    Ok(Budgeted {
        set,
        result: chosen.result,
        in_job,
    })
}

/// What would make a chosen set fit: only longer periods, because a graph needs what it needs.
pub(super) fn advice(budgeted: &Budgeted, test: Test, objective: Objective) -> Option<Advice> {
    let Err(Infeasible::NotSchedulable(_)) = budgeted.result else {
        return None;
    };
    let Budgeted { set, in_job, .. } = budgeted;
    let platform = set.platform(test, set.gpu.chunk.unwrap_or(GRANULARITY));
    let fits = |demands: &[Demand]| {
        let way = |(place, demand): (usize, &Demand)| {
            let point = in_job.iter().find(|in_job| in_job.task == place);
            vec![Choice {
                demand: *demand,
                host: Bytes(point.map_or(0, |in_job| in_job.point.host_bytes)),
            }]
        };
        let choices = [Choices {
            platform,
            tasks: demands.iter().enumerate().map(way).collect(),
        }];
        let chosen = assign_choices(test, &choices, set.gpu.capacity, host(set), objective);
        demands.iter().all(|d| d.timing.period <= MAX_PERIOD)
            && chosen.is_some_and(|chosen| chosen.result.is_ok())
    };
    let advice = Advice {
        footprint: None,
        ..advise(&set.demands(), fits)
    };
    (advice != Advice::default()).then_some(advice)
}

fn host(set: &TaskSet) -> Bytes {
    set.gpu.host_memory.unwrap_or(Bytes::MAX)
}

/// The curve of each graph with each δ: by δ, then in the order of the graphs.
fn curves(
    set: &TaskSet,
    graphs: &[GraphFile],
    chunks: &[Bytes],
) -> Result<Vec<Vec<Vec<Point>>>, PlanError> {
    let of = |chunk: Bytes, (graph, of): (&GraphFile, &GraphTask)| {
        points(set, &graph.graph, of.context, chunk)
    };
    let with = |chunk: &Bytes| {
        let graphs = iter::zip(graphs, &set.graphs);
        graphs.map(|graph| of(*chunk, graph)).collect()
    };
    chunks.iter().map(with).collect()
}

/// The budgets of one graph that fit beside its context, or the least one if none does.
fn points(
    set: &TaskSet,
    graph: &Graph,
    context: Bytes,
    chunk: Bytes,
) -> Result<Vec<Point>, PlanError> {
    let room = set.gpu.capacity.round_down(chunk).saturating_sub(context);
    let machine = machine(set, chunk);
    let mut points = curve(graph, &machine, &budgets(graph, chunk.0, room.0, BUDGETS))?;
    let largest = graph.largest(chunk.0).bytes;
    if points.is_empty() && largest > room.0 {
        points = curve(graph, &machine, &[largest])?;
    }
    Ok(points)
}

/// What a job's copies can count on beside the swaps of other tasks. The driver maps each chunk of a tensor: a copy takes no
/// longer than so many bytes at the rate of whole chunks, and the mapping of one chunk more.
fn machine(set: &TaskSet, chunk: Bytes) -> Machine {
    let SwapCost { out, in_ } = set.swap_cost.loaded(set.rate());
    let rate = |cost: DirectionCost| chunk.0 as f64 / cost.chunk_time(chunk).0 as f64;
    let slower = rate(out).min(rate(in_));
    Machine {
        chunk: chunk.0,
        link: Link {
            alone: slower,
            duplex: slower,
            latency_ns: out.per_chunk.max(in_.per_chunk).0 as f64,
        },
    }
}

/// The ways to run each task, with the curves of its graphs for one δ.
fn ways(set: &TaskSet, curves: &[Vec<Point>]) -> Vec<Vec<Choice>> {
    let mut ways: Vec<Vec<Choice>> = set
        .demands()
        .into_iter()
        .map(|demand| {
            vec![Choice {
                demand,
                host: Bytes::ZERO,
            }]
        })
        .collect();
    for (of, curve) in iter::zip(&set.graphs, curves) {
        let timing = set.tasks[of.task].timing;
        let way = |point: &Point| Choice {
            demand: Demand {
                timing: Timing {
                    wcet: Nanos(point.time_ns),
                    ..timing
                },
                memory: MemoryProfile {
                    footprint: Bytes(point.budget) + of.context,
                    swappable: Bytes(point.budget),
                },
            },
            host: Bytes(point.host_bytes),
        };
        ways[of.task] = curve.iter().map(way).collect();
    }
    ways
}
