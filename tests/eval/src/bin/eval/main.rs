//! The tables and figures of the RT-Swap paper's evaluation: ours beside the published numbers.
//!
//! The figures are functions of this package's library. Here they are printed, and written as JSON and
//! SVG. Seeds are fixed: the same command writes the same bytes.

mod chart;
mod figures;
mod palette;
mod report;
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

impl Choice {
    fn figures(self) -> Vec<Compute> {
        let one: Compute = match self {
            Self::Fig4 => swap_time::report,
            Self::Fig5 => schedules::unnecessary_swaps,
            Self::Fig6 => schedules::blocking,
            Self::Fig7a => tasks::report,
            Self::Fig7b => capacity::report,
            Self::Fig7c => resolution::report,
            Self::Table2 => fragmentation::report,
            Self::Table4 => case_study::report,
            Self::Besteffort => best_effort::report,
            Self::All => {
                let each = Self::value_variants().iter();
                let paper = |choice: &&Self| !matches!(choice, Self::All | Self::Besteffort);
                let each = each.filter(paper);
                return each.flat_map(|choice| choice.figures()).collect();
            }
        };
        vec![one]
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
    for compute in cli.figure.figures() {
        let report = compute(cli.test.into())?;
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
