//! The tables and figures of the evaluations of RT-Swap, SwapAdvisor, SwapNet and TENSILE: ours beside the published numbers.
//!
//! The figures are functions of this package's library. Here they are printed, and written as JSON and
//! SVG. Seeds are fixed: the same command writes the same bytes.

mod advisor;
mod chart;
mod figures;
mod palette;
mod report;
mod swapnet;
mod tensile;
mod text;
mod timeline;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use rtswap_policy::admission::Test;
use serde_json::json;

use crate::advisor::Searches;
use crate::figures::{
    Compute, best_effort, capacity, case_study, fragmentation, resolution, schedules, swap_time,
    tasks,
};
use crate::report::Report;

/// Compute the paper's tables and figures, and hold them against what it published.
#[derive(Parser)]
#[command(name = "eval")]
struct Cli {
    /// Which.
    #[arg(value_enum)]
    figure: Choice,
    /// The admission test of Fig. 7 and Table IV; the paper's is theorem1.
    #[arg(long, value_enum, default_value_t = TestName::Theorem1)]
    test: TestName,
    /// Generations of our search, each of 96 plans, where SwapAdvisor's tables and figures search.
    #[arg(long, default_value_t = 60)]
    generations: u32,
    /// Generations of SwapAdvisor's own search, each of 144 plans.
    #[arg(long, default_value_t = 40)]
    paper_generations: u32,
    /// Noisy runs of each of TENSILE's tables.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Where FIGURE.json and FIGURE.svg go; it is made.
    #[arg(long, value_name = "DIR", default_value = "target/eval")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Swap times by chunk size.
    Fig4,
    /// Schedules: no preemption between swap-in and execution.
    Fig5,
    /// Schedules: who may be swapped in early, and blocking.
    Fig6,
    /// Sets admitted, by the number of tasks.
    Fig7a,
    /// Sets admitted, by GPU memory.
    Fig7b,
    /// Sets admitted, by the share of tasks in high resolution.
    Fig7c,
    /// Fragmentation.
    Table2,
    /// The case study.
    Table4,
    /// Policies for best-effort, which the paper does not have.
    Besteffort,
    /// SwapAdvisor: memory, operators and tensor sizes.
    AdvisorTable1,
    /// SwapAdvisor: inference in little memory.
    AdvisorTable2,
    /// SwapAdvisor: training throughput.
    AdvisorFig6,
    /// The same with a slower and a faster GPU.
    AdvisorRoofline,
    /// SwapAdvisor: training throughput of a narrower model.
    AdvisorFig7,
    /// SwapAdvisor: several models that serve.
    AdvisorFig8,
    /// SwapAdvisor: the progress of searches.
    AdvisorFig9,
    /// SwapAdvisor: the same with any mapping of sizes.
    AdvisorFig9c,
    /// SwapAdvisor: searches of schedules and of allocations only.
    AdvisorFig10,
    /// All of SwapAdvisor's.
    Advisor,
    /// SwapNet: the budgets of models that share memory.
    SwapnetBudgets,
    /// SwapNet: the coefficients of the device.
    SwapnetFig9,
    /// SwapNet: memory and latency in self-driving.
    SwapnetFig11,
    /// SwapNet: the same of a road-side unit.
    SwapnetFig12,
    /// SwapNet: the same of a UAV.
    SwapnetFig13,
    /// SwapNet: the distribution of latencies.
    SwapnetFig14,
    /// SwapNet: without one of its parts.
    SwapnetFig15,
    /// SwapNet: more blocks.
    SwapnetFig16,
    /// SwapNet: a budget that changes.
    SwapnetFig18,
    /// SwapNet: the model info table.
    SwapnetTable2,
    /// SwapNet: the table of partitions.
    SwapnetTable3,
    /// All of SwapNet's.
    Swapnet,
    /// TENSILE: one job.
    TensileTable1,
    /// TENSILE: one to three jobs.
    TensileTable2,
    /// TENSILE: kept tensors swapped across iterations, and not.
    TensileAcross,
    /// TENSILE: jobs that come and go, and wrong predictions.
    TensileDynamic,
    /// All of TENSILE's.
    Tensile,
    /// All of the paper's.
    All,
}

#[derive(Clone, Copy, ValueEnum)]
enum TestName {
    /// The paper's Theorem 1.
    Theorem1,
    /// Processor demand at every deadline.
    Demand,
    /// The same, evictions and swap-ins overlapping.
    Pipelined,
}

/// How a figure or table is computed.
enum Computed {
    /// One of RT-Swap's, under an admission test.
    Tested(Compute),
    /// One of SwapAdvisor's, by searches.
    Searched(advisor::Compute),
    /// One of SwapNet's.
    InBlocks(swapnet::Compute),
    /// One of TENSILE's, in noisy runs.
    Noisy(tensile::Compute),
}

impl Choice {
    /// The choice itself, or all that it stands for.
    fn figures(self) -> Vec<Self> {
        let each = Self::value_variants().iter().copied();
        let is_tested = |choice: &Self| matches!(choice.computed(), Some(Computed::Tested(_)));
        let is_searched = |choice: &Self| matches!(choice.computed(), Some(Computed::Searched(_)));
        let is_in_blocks = |choice: &Self| matches!(choice.computed(), Some(Computed::InBlocks(_)));
        let is_noisy = |choice: &Self| matches!(choice.computed(), Some(Computed::Noisy(_)));
        match self {
            Self::All => {
                let is_paper = |choice: &Self| *choice != Self::Besteffort && is_tested(choice);
                each.filter(is_paper).collect()
            }
            Self::Advisor => each.filter(is_searched).collect(),
            Self::Swapnet => each.filter(is_in_blocks).collect(),
            Self::Tensile => each.filter(is_noisy).collect(),
            one => vec![one],
        }
    }

    /// How it is computed; none for several.
    fn computed(self) -> Option<Computed> {
        Some(match self {
            Self::Fig4 => Computed::Tested(swap_time::report),
            Self::Fig5 => Computed::Tested(schedules::unnecessary_swaps),
            Self::Fig6 => Computed::Tested(schedules::blocking),
            Self::Fig7a => Computed::Tested(tasks::report),
            Self::Fig7b => Computed::Tested(capacity::report),
            Self::Fig7c => Computed::Tested(resolution::report),
            Self::Table2 => Computed::Tested(fragmentation::report),
            Self::Table4 => Computed::Tested(case_study::report),
            Self::Besteffort => Computed::Tested(best_effort::report),
            Self::AdvisorTable1 => Computed::Searched(advisor::sizes::table_1),
            Self::AdvisorTable2 => Computed::Searched(advisor::inference::table_2),
            Self::AdvisorFig6 => Computed::Searched(advisor::shares::figure_6),
            Self::AdvisorRoofline => Computed::Searched(advisor::shares::figure_6_sensitivity),
            Self::AdvisorFig7 => Computed::Searched(advisor::shares::figure_7),
            Self::AdvisorFig8 => Computed::Searched(advisor::serving::figure_8),
            Self::AdvisorFig9 => Computed::Searched(advisor::progress::figure_9),
            Self::AdvisorFig9c => Computed::Searched(advisor::progress::figure_9c),
            Self::AdvisorFig10 => Computed::Searched(advisor::settings::figure_10),
            Self::SwapnetBudgets => Computed::InBlocks(swapnet::budgets::report),
            Self::SwapnetFig9 => Computed::InBlocks(swapnet::profiling::figure_9),
            Self::SwapnetFig11 => Computed::InBlocks(swapnet::applications::figure_11),
            Self::SwapnetFig12 => Computed::InBlocks(swapnet::applications::figure_12),
            Self::SwapnetFig13 => Computed::InBlocks(swapnet::applications::figure_13),
            Self::SwapnetFig14 => Computed::InBlocks(swapnet::distribution::figure_14),
            Self::SwapnetFig15 => Computed::InBlocks(swapnet::ablation::figure_15),
            Self::SwapnetFig16 => Computed::InBlocks(swapnet::numbers::figure_16),
            Self::SwapnetFig18 => Computed::InBlocks(swapnet::adaptation::figure_18),
            Self::SwapnetTable2 => Computed::InBlocks(swapnet::tables::table_2),
            Self::SwapnetTable3 => Computed::InBlocks(swapnet::tables::table_3),
            Self::TensileTable1 => Computed::Noisy(tensile::ratios::table_1),
            Self::TensileTable2 => Computed::Noisy(tensile::ratios::table_2),
            Self::TensileAcross => Computed::Noisy(tensile::across::report),
            Self::TensileDynamic => Computed::Noisy(tensile::dynamic::report),
            Self::All | Self::Advisor | Self::Swapnet | Self::Tensile => return None,
        })
    }
}

impl From<TestName> for Test {
    fn from(name: TestName) -> Self {
        match name {
            TestName::Theorem1 => Self::Theorem1,
            TestName::Demand => Self::Demand,
            TestName::Pipelined => Self::Pipelined,
        }
    }
}

fn main() -> ExitCode {
    let Err(error) = run(&Cli::parse()) else {
        return ExitCode::SUCCESS;
    };
    let cause = error.downcast_ref::<io::Error>();
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe) {
        // The reader has what it wanted.
        return ExitCode::SUCCESS;
    }
    // Not by returning it, which prints a backtrace where the environment asks for one.
    let _ = writeln!(io::stderr(), "eval: {error:#}");
    ExitCode::FAILURE
}

fn run(cli: &Cli) -> Result<()> {
    fs::create_dir_all(&cli.out).with_context(|| format!("cannot make {}", cli.out.display()))?;
    let mut reports = Vec::new();
    let mut stdout = io::stdout().lock();
    let searches = Searches {
        ours: cli.generations,
        paper: cli.paper_generations,
    };
    for computed in cli
        .figure
        .figures()
        .into_iter()
        .filter_map(Choice::computed)
    {
        let report = match computed {
            Computed::Tested(compute) => compute(cli.test.into())?,
            Computed::Searched(compute) => compute(searches)?,
            Computed::InBlocks(compute) => compute()?,
            Computed::Noisy(compute) => compute(cli.runs)?,
        };
        write(&cli.out, &report)?;
        if !cli.json {
            writeln!(stdout, "{}", text::render(&report))?;
        }
        reports.push(report);
    }
    if cli.json {
        let all = json!({ "version": report::VERSION, "reports": reports });
        writeln!(stdout, "{}", serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

fn write(folder: &Path, report: &Report) -> Result<()> {
    let put = |ending: &str, bytes: &str| {
        let path = folder.join(format!("{}.{ending}", report.figure));
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    put("json", &(serde_json::to_string_pretty(report)? + "\n"))?;
    put("svg", &report.svg)
}
