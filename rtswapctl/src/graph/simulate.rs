//! `rtswapctl graph simulate`: runs a plan, or what swapping without a search does, on a simulated GPU.

use std::path::Path;

use rtswap_planner::advisor::{OnDemand, first, on_demand};
use rtswap_planner::graph::OpId;
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;
use rtswap_taskset::graph::GraphFile;
use serde::Serialize;

use super::figures::{self, Figures};
use super::plan::{Parts, apart};
use super::text::{self, Row};
use super::{CHUNK, file};
use crate::cli::GraphSimulateOptions;
use crate::failure::Failure;
use crate::{files, output};

/// The JSON of `graph simulate`, version 1.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    version: u32,
    name: &'a str,
    budget_bytes: u64,
    chunk_bytes: u64,
    runs: &'a [Row<'a>],
}

/// Runs what is asked, and prints what it comes to.
pub(super) fn simulate(options: &GraphSimulateOptions) -> Result<(), Failure> {
    apart(
        &options.graph,
        options.plan.as_deref(),
        options.svg.as_deref(),
    )?;
    let file = file::graph(&options.graph)?;
    match (&options.plan, options.budget) {
        (Some(path), _) => run_plan(options, &file, path),
        (None, budget) => run_baselines(options, &file, budget.unwrap_or_default()),
    }
}

fn run_plan(options: &GraphSimulateOptions, file: &GraphFile, path: &Path) -> Result<(), Failure> {
    let read = file::plan(path, &file.graph)?;
    let rows = [ideal(file), run(options, file, &read.planner, &read.plan)?];
    let promised = read.predicted.time_ns;
    if rows[1].figures.time_ns != promised {
        output::note(&format!(
            "{} predicts {promised} ns, by another machine model or by hand: what runs here takes {} ns",
            path.display(),
            rows[1].figures.time_ns
        ));
    }
    let how = format!(
        "a plan by the planner {} from seed {}",
        read.planner, read.seed
    );
    print(options, file, &read.plan, &how, &rows)
}

fn run_baselines(
    options: &GraphSimulateOptions,
    file: &GraphFile,
    budget: u64,
) -> Result<(), Failure> {
    let graph = &file.graph;
    let parts = Parts::of(graph);
    let problem = parts.problem(graph, budget)?;
    let mut rows = vec![ideal(file)];
    let order: Vec<OpId> = (0..graph.operators().len() as OpId).collect();
    for (name, how) in [
        ("on demand", OnDemand::Passive),
        ("prefetch", OnDemand::Prefetch),
    ] {
        let plan = on_demand(graph, &order, budget, CHUNK, how).map_err(|_| Failure::NoPlan)?;
        let timeline = figures::timeline(graph, &plan);
        rows.push(Row {
            run: name,
            figures: Figures::of(graph, &plan, &timeline),
        });
    }
    let plan = first(problem).ok_or(Failure::NoPlan)?;
    validate(graph, &plan).map_err(Failure::BadPlan)?;
    rows.push(run(options, file, "advisor", &plan)?);
    print(
        options,
        file,
        &plan,
        "before any search, in the graph's own order",
        &rows,
    )
}

fn ideal(file: &GraphFile) -> Row<'static> {
    Row {
        run: "ideal",
        figures: Figures::ideal(&file.graph),
    }
}

/// Runs a plan that was proven, and draws it where that is asked.
fn run<'a>(
    options: &GraphSimulateOptions,
    file: &GraphFile,
    name: &'a str,
    plan: &Plan,
) -> Result<Row<'a>, Failure> {
    let timeline = figures::timeline(&file.graph, plan);
    let row = Row {
        run: name,
        figures: Figures::of(&file.graph, plan, &timeline),
    };
    if let Some(path) = &options.svg {
        files::write(
            path,
            &timeline.svg(&text::title(&file.name, plan.budget, &row)),
        )?;
    }
    Ok(row)
}

fn print(
    options: &GraphSimulateOptions,
    file: &GraphFile,
    plan: &Plan,
    how: &str,
    rows: &[Row<'_>],
) -> Result<(), Failure> {
    if options.json {
        return output::json(&Answer {
            version: 1,
            name: &file.name,
            budget_bytes: plan.budget,
            chunk_bytes: plan.chunk,
            runs: rows,
        });
    }
    output::text(&text::runs(&file.name, plan.budget, how, rows))
}
