//! Checks volume assignment for Theorem 1 against HiGHS, and times both.

#![forbid(unsafe_code)]

mod child;
mod compare;
mod draw;
mod milp;
mod planning;
mod program;
mod protocol;
mod random;
mod report;
mod solver;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rtswap_policy::assign::Objective;

use compare::compare;
use draw::Family;
use random::Random;
use report::{Count, Report};
use solver::Solver;

/// Random instances of (1a)–(1d) in three families, each solved by rtswap's search and by HiGHS
/// under both objectives. Exits 1 if they disagree on any, if the search is not as much faster in
/// the median over all instances as it must be, or if HiGHS cannot be had.
#[derive(Parser)]
struct Options {
    /// How many instances to draw.
    #[arg(long, default_value_t = 10_000)]
    instances: u64,
    /// Which ones.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many times faster than HiGHS the search must be.
    #[arg(long, default_value_t = 200.0)]
    faster: f64,
    /// The Python interpreter that has what tests/milp/requirements.txt names.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let mut solver = Solver::start(&options.python)?;
    let start = Instant::now();
    let mut counts = Vec::new();
    for (at, family) in Family::ALL.into_iter().enumerate() {
        let share = options.instances / 3 + u64::from((at as u64) < options.instances % 3);
        for (objective, name) in [(Objective::Time, "time"), (Objective::Volume, "volume")] {
            let mut random = Random(options.seed.wrapping_mul(1_000) + at as u64);
            let mut count = Count::new(family.name(), name);
            for _ in 0..share {
                let instance = random.instance(family);
                count.add(&compare(&mut solver, &instance, objective)?);
            }
            counts.push(count);
        }
    }
    let report = Report::new(
        solver.version().into(),
        options.seed,
        start.elapsed(),
        counts,
        planning::measure(),
    );
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    let slow = options.instances > 0 && report.ratio < options.faster;
    Ok(ExitCode::from(u8::from(report.disagreements > 0 || slow)))
}
