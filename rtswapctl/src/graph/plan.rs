//! `rtswapctl graph plan`: makes a plan that fits a budget, proves it, and prints what it comes to.

use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rtswap_planner::advisor::Problem;
use rtswap_planner::budget::Maker;
use rtswap_planner::graph::{Graph, Order, Starts};
use rtswap_planner::machine::run;
use rtswap_planner::plan::Plan;
use rtswap_taskset::plan::{GraphIdentity, PlanFile, write};

use super::figures::{self, Figures};
use super::search::{self, Bound, Found};
use super::text::{self, Row};
use super::{CHUNK, LINK, file, made};
use crate::cli::{GraphPlanOptions, Planner};
use crate::failure::Failure;
use crate::{files, output};

/// Makes a plan, and prints it or its figures; fails where there can be none.
pub(super) fn plan(options: &GraphPlanOptions) -> Result<(), Failure> {
    apart(&options.graph, None, options.svg.as_deref())?;
    let file = file::graph(&options.graph)?;
    let graph = &file.graph;
    let budget = options.budget;
    let Made { planner, plan, how } = made(options, graph)?;
    let timeline = figures::timeline(graph, &plan);
    let row = Row {
        run: planner.name(),
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
            planner: planner.name().to_owned(),
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
    output::text(&text::runs(&file.name, budget, &how, &[ideal, row]))
}

/// What was made.
struct Made {
    /// What made it.
    planner: Planner,
    plan: Plan,
    /// How it was made, in words.
    how: String,
}

/// Has the planner that was asked for make a plan, or all of them, and takes the fastest one.
fn made(options: &GraphPlanOptions, graph: &Graph) -> Result<Made, Failure> {
    let budget = options.budget;
    let at_once = |planner: Planner, plan: Plan| Made {
        planner,
        plan,
        how: format!("the plan of the planner {}", planner.name()),
    };
    let made = |maker| made::at_once(maker, graph, budget);
    let tensile = || made(Maker::Tensile).map(|plan| at_once(Planner::Tensile, plan));
    let blocks = || made(Maker::Blocks).map(|plan| at_once(Planner::Blocks, plan));
    match options.planner {
        Planner::Advisor => searched(options, graph),
        Planner::Tensile => tensile(),
        Planner::Blocks => blocks(),
        Planner::Best => {
            // The search is last: an interrupt ends it, and nothing comes behind it.
            let mut all = Vec::new();
            for other in [tensile(), blocks()] {
                match other {
                    // The search needs less memory, and is for all graphs.
                    Err(Failure::PlannerNeeds { .. } | Failure::NoBlocks) => {}
                    other => all.push(other?),
                }
            }
            all.push(searched(options, graph)?);
            let time = |made: &Made| run(graph, &made.plan, LINK).map(|run| run.total_ns);
            let best = all.into_iter().min_by_key(time);
            let mut best = best.ok_or(Failure::NoPlan)?;
            best.how += ", the fastest of all planners";
            Ok(best)
        }
    }
}

/// Searches as SwapAdvisor does.
fn searched(options: &GraphPlanOptions, graph: &Graph) -> Result<Made, Failure> {
    let parts = Parts::of(graph);
    let problem = parts.problem(graph, options.budget)?;
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
    Ok(Made {
        planner: Planner::Advisor,
        plan,
        how: format!("the best plan of {searched} from seed {}", options.seed),
    })
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
