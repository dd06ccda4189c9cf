//! `rtswapctl graph plan`: searches for a plan that fits a budget, proves it, and prints what it comes to.

use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rtswap_planner::advisor::Problem;
use rtswap_planner::graph::{Graph, Order, Starts};
use rtswap_taskset::plan::{GraphIdentity, PlanFile, write};

use super::figures::{self, Figures};
use super::search::{self, Bound, Found};
use super::text::{self, Row};
use super::{CHUNK, LINK, file};
use crate::cli::GraphPlanOptions;
use crate::failure::Failure;
use crate::{files, output};

/// Searches, and prints the best plan or its figures; [`Failure::SmallBudget`] where there can be none.
pub(super) fn plan(options: &GraphPlanOptions) -> Result<(), Failure> {
    apart(&options.graph, None, options.svg.as_deref())?;
    let file = file::graph(&options.graph)?;
    let graph = &file.graph;
    let budget = options.budget;
    let parts = Parts::of(graph);
    let problem = parts.problem(graph, budget)?;
    let bound = match options.generations {
        Some(generations) => Bound::Generations(generations),
        None => Bound::Time(Duration::from_secs(options.seconds.into())),
    };
    let threads = options
        .threads
        .map_or_else(cpus, |threads| threads as usize);
    let Found {
        plan,
        generations,
        is_cut,
        is_interrupted,
    } = search::search(problem, options.seed, bound, threads)?;
    let part = if is_cut { " and a part of one" } else { "" };
    let searched = text::counted(generations, "generation") + part;
    if is_interrupted {
        output::note(&format!("interrupted; this is the best plan of {searched}"));
    }
    let timeline = figures::timeline(graph, &plan);
    let row = Row {
        run: options.planner.name(),
        figures: Figures::of(graph, &plan, &timeline),
    };
    if let Some(path) = &options.svg {
        files::write(path, &timeline.svg(&text::title(&file.name, budget, &row)))?;
    }
    let predicted = figures::predicted(graph, &timeline);
    drop(timeline);
    if options.json {
        let plan = PlanFile {
            graph: GraphIdentity::of(&file),
            planner: options.planner.name().to_owned(),
            seed: options.seed,
            predicted,
            plan,
        };
        return output::script(write(&plan).as_bytes());
    }
    let ideal = Row {
        run: "ideal",
        figures: Figures::ideal(graph),
    };
    let seed = options.seed;
    let how = format!("the best plan of {searched} from seed {seed}");
    output::text(&text::runs(&file.name, budget, &how, &[ideal, row]))
}

/// Checks that the picture is written over nothing that is read.
pub(super) fn apart(graph: &Path, plan: Option<&Path>, svg: Option<&Path>) -> Result<(), Failure> {
    if plan.is_some_and(|plan| plan == "-") && graph == "-" {
        return Err(Failure::SameFile {
            one: "GRAPH",
            other: "--plan",
        });
    }
    files::apart(&[("GRAPH", Some(graph)), ("--svg", svg)])?;
    files::apart(&[("--plan", plan), ("--svg", svg)])
}

/// What a search needs to know of a graph.
pub(super) struct Parts {
    order: Order,
    users: Starts,
}

impl Parts {
    pub(super) fn of(graph: &Graph) -> Self {
        Self {
            order: Order::of(graph),
            users: Problem::users(graph),
        }
    }

    /// The search for a plan in `budget` bytes, which must be enough for the largest operator.
    pub(super) fn problem<'a>(
        &'a self,
        graph: &'a Graph,
        budget: u64,
    ) -> Result<Problem<'a>, Failure> {
        let largest = graph.largest(CHUNK);
        if budget < largest.bytes {
            return Err(Failure::SmallBudget {
                budget,
                op: largest.op,
                name: graph.operator(largest.op).name.clone(),
                least: largest.bytes,
            });
        }
        Ok(Problem {
            graph,
            order: &self.order,
            users: &self.users,
            budget,
            chunk: CHUNK,
            link: LINK,
        })
    }
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
