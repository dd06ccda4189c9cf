//! Checks volume assignment for Theorem 1 against HiGHS, and times both.

mod compare;
mod draw;
mod milp;
mod planning;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use rtswap_policy::assign::Objective;
use serde::Serialize;

use compare::{Verdict, compare};
use draw::{Family, Random};

/// Random instances of (1a)–(1d) in three families, each solved by rtswap's search and by HiGHS
/// under both objectives. Exits 1 if they disagree on any, or the search is not as much
/// faster in the median over all instances as it must be.
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct Count {
    family: &'static str,
    objective: &'static str,
    instances: u64,
    feasible: u64,
    unproven: u64,
    infeasible: u64,
    within_tolerance: u64,
    overruled: u64,
    unknown: u64,
    disagreements: u64,
    median_us: f64,
    highs_median_us: f64,
    /// The median over the instances of how many times longer HiGHS took.
    ratio: f64,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    seed: u64,
    seconds: f64,
    counts: Vec<Count>,
    disagreements: u64,
    median_us: f64,
    highs_median_us: f64,
    ratio: f64,
    planning: Vec<planning::Planning>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let start = Instant::now();
    let mut counts = Vec::new();
    let mut times = (Vec::new(), Vec::new(), Vec::new());
    for (at, family) in Family::ALL.into_iter().enumerate() {
        let share = options.instances / 3 + u64::from((at as u64) < options.instances % 3);
        for (objective, name) in [(Objective::Time, "time"), (Objective::Volume, "volume")] {
            let mut random = Random(options.seed.wrapping_mul(1_000) + at as u64);
            let mut count = Count {
                family: family.name(),
                objective: name,
                ..Count::default()
            };
            let (mut ours, mut highs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for number in 0..share {
                let instance = random.instance(family);
                let comparison = compare(&instance, objective);
                ours.push(micros(comparison.ours));
                highs.push(micros(comparison.highs));
                ratios.push(micros(comparison.highs) / micros(comparison.ours));
                count.instances += 1;
                match comparison.verdict {
                    Verdict::BothFeasible => {
                        count.feasible += 1;
                        count.unproven += u64::from(!comparison.proven);
                    }
                    Verdict::BothInfeasible => count.infeasible += 1,
                    Verdict::WithinTolerance => count.within_tolerance += 1,
                    Verdict::Overruled => count.overruled += 1,
                    Verdict::Unknown => count.unknown += 1,
                    Verdict::Disagree(what) => {
                        count.disagreements += 1;
                        eprintln!("{} {name} {number}: {what}", family.name());
                    }
                }
            }
            (count.median_us, count.highs_median_us) = (median(&mut ours), median(&mut highs));
            count.ratio = median(&mut ratios);
            times.0.append(&mut ours);
            times.1.append(&mut highs);
            times.2.append(&mut ratios);
            counts.push(count);
        }
    }
    let (median_us, highs_median_us) = (median(&mut times.0), median(&mut times.1));
    let report = Report {
        version: 1,
        seed: options.seed,
        seconds: start.elapsed().as_secs_f64(),
        disagreements: counts.iter().map(|count| count.disagreements).sum(),
        counts,
        median_us,
        highs_median_us,
        ratio: median(&mut times.2),
        planning: planning::measure(),
    };
    if options.json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("cannot write the report as JSON: {error}"),
        }
    } else {
        print(&report);
    }
    let slow = options.instances > 0 && report.ratio < options.faster;
    if report.disagreements > 0 || slow {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn print(report: &Report) {
    println!(
        "{:<11} {:<7} {:>9} {:>9} {:>8} {:>10} {:>9} {:>9} {:>7} {:>8} {:>9} {:>11} {:>7}",
        "family",
        "goal",
        "instances",
        "feasible",
        "unproven",
        "infeasible",
        "tolerance",
        "overruled",
        "unknown",
        "disagree",
        "ours µs",
        "HiGHS µs",
        "ratio"
    );
    for count in &report.counts {
        println!(
            "{:<11} {:<7} {:>9} {:>9} {:>8} {:>10} {:>9} {:>9} {:>7} {:>8} {:>9.1} {:>11.1} {:>7.0}",
            count.family,
            count.objective,
            count.instances,
            count.feasible,
            count.unproven,
            count.infeasible,
            count.within_tolerance,
            count.overruled,
            count.unknown,
            count.disagreements,
            count.median_us,
            count.highs_median_us,
            count.ratio
        );
    }
    println!(
        "seed {}: {} disagreements in {:.1} s; medians {:.1} µs and {:.1} µs, {:.0} times faster in \
         the median",
        report.seed,
        report.disagreements,
        report.seconds,
        report.median_us,
        report.highs_median_us,
        report.ratio
    );
    for planning in &report.planning {
        println!(
            "{} tasks, all chunk sizes, base {} ms, {}, {}, {}schedulable: {:.3} ms",
            planning.tasks,
            planning.base_ms,
            planning.test,
            planning.objective,
            if planning.schedulable { "" } else { "not " },
            planning.millis
        );
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
