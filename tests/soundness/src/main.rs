//! `soundness`: looks for misses where there must be none, and where there must be some.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use rtswap_policy::admission::Test;
use rtswap_soundness::attack::{Count, Effort, Refutation, attack, refute, rules, smallest};
use rtswap_soundness::copies::{Engines, search};
use rtswap_soundness::search::Driver;
use serde::Serialize;

/// What runs the cases.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineName {
    /// The scheduler, by the simulator.
    Real,
    /// The model.
    Model,
}

/// A test, or all three.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TestName {
    Theorem1,
    Demand,
    Pipelined,
    All,
}

/// Looks for deadline misses in admitted sets. Ends with 1 if a sound rule missed, if an invariant
/// broke, or if a refuted rule could not be refuted.
#[derive(Debug, Parser)]
#[command(name = "soundness")]
struct Arguments {
    /// Runs of the sound rules in all.
    #[arg(long, default_value_t = 20_000)]
    runs: u64,
    /// At least so many climbs of the sound rules in all; of each refuted rule at most as many
    /// (0: 2000).
    #[arg(long, default_value_t = 0)]
    climbs: u64,
    /// What runs them.
    #[arg(long, value_enum, default_value_t = EngineName::Real)]
    engine: EngineName,
    /// The admission test.
    #[arg(long, value_enum, default_value_t = TestName::All)]
    test: TestName,
    /// Refute what is refuted, on the model, instead.
    #[arg(long)]
    refuted: bool,
    /// Of the refuted rules only these.
    #[arg(long, requires = "refuted")]
    rule: Vec<String>,
    /// Keep the smallest counterexample of so many climbs for each refuted rule, in a folder.
    #[arg(long, requires = "refuted")]
    write: Option<PathBuf>,
    /// Run so many sets whose jobs copy while they run instead, on the scheduler.
    #[arg(
        long,
        value_name = "SETS",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["refuted", "runs", "climbs", "engine", "test"]
    )]
    copies: Option<u64>,
    /// Take C with idle copy engines, and look for misses there.
    #[arg(long, requires = "copies")]
    idle: bool,
    /// Where the random numbers begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads (0: as many as there are cores).
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// No new climb after so many seconds. What was done until then then depends on the machine.
    #[arg(long)]
    seconds: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Sound {
    version: u32,
    engine: &'static str,
    runs: u64,
    jobs: u64,
    skipped: u64,
    voided: u64,
    climbs: u64,
    misses: u64,
    violations: u64,
    seconds: f64,
    kinds: Vec<Count>,
}

#[derive(Serialize)]
struct RefutedRules {
    version: u32,
    seconds: f64,
    rules: Vec<Refutation>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let effort = Effort {
        threads: if arguments.threads == 0 {
            cores
        } else {
            arguments.threads
        },
        seed: arguments.seed,
        until: arguments
            .seconds
            .map(|limit| start + Duration::from_secs(limit)),
    };
    let good = if let Some(sets) = arguments.copies {
        report_copies(&arguments, sets, effort, start)?
    } else if let Some(folder) = &arguments.write {
        keep(&arguments, effort, folder)?
    } else if arguments.refuted {
        report_refuted(&arguments, effort, start)?
    } else {
        report_sound(&arguments, effort, start)?
    };
    Ok(ExitCode::from(u8::from(!good)))
}

fn report_sound(arguments: &Arguments, effort: Effort, start: Instant) -> anyhow::Result<bool> {
    let (driver, engine) = match arguments.engine {
        EngineName::Real => (Driver::Real, "real"),
        EngineName::Model => (Driver::Model, "model"),
    };
    let tests: &[Test] = match arguments.test {
        TestName::Theorem1 => &[Test::Theorem1],
        TestName::Demand => &[Test::Demand],
        TestName::Pipelined => &[Test::Pipelined],
        TestName::All => &[Test::Theorem1, Test::Demand, Test::Pipelined],
    };
    let kinds = attack(driver, tests, arguments.runs, arguments.climbs, effort);
    let sum = |what: fn(&Count) -> u64| kinds.iter().map(what).sum();
    let sound = Sound {
        version: 1,
        engine,
        runs: sum(|count| count.runs),
        jobs: sum(|count| count.jobs),
        skipped: sum(|count| count.skipped),
        voided: sum(|count| count.voided),
        climbs: sum(|count| count.climbs),
        misses: sum(|count| count.misses),
        violations: sum(|count| count.violations),
        seconds: start.elapsed().as_secs_f64(),
        kinds,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&sound)?);
    } else {
        print_sound(&sound)?;
    }
    Ok(sound.misses == 0 && sound.violations == 0 && sound.jobs > 0)
}

fn print_sound(sound: &Sound) -> anyhow::Result<()> {
    println!(
        "{:10} {:34} {:>8} {:>9} {:>10} {:>8} {:>7} {:>10} {:>6}",
        "test", "sets", "climbs", "runs", "jobs", "skipped", "voided", "violations", "misses"
    );
    for count in &sound.kinds {
        println!(
            "{:10} {:34} {:>8} {:>9} {:>10} {:>8} {:>7} {:>10} {:>6}",
            count.test,
            count.kind,
            count.climbs,
            count.runs,
            count.jobs,
            count.skipped,
            count.voided,
            count.violations,
            count.misses
        );
    }
    for count in &sound.kinds {
        if let Some(miss) = &count.miss {
            println!(
                "\n{}, {}: response {} for D = {}\n{}",
                count.test,
                count.kind,
                miss.response,
                miss.deadline,
                serde_json::to_string(&miss.case)?
            );
        }
        if let Some(case) = &count.endless {
            let case = serde_json::to_string(case)?;
            println!(
                "\n{}, {}: no end of swapping\n{case}",
                count.test, count.kind
            );
        }
        if let Some((what, case)) = &count.violation {
            let case = serde_json::to_string(case)?;
            println!("\n{}, {}: {what}\n{case}", count.test, count.kind);
        }
    }
    println!(
        "\n{} runs on the {} engine with {} jobs in {:.1} s ({:.0} runs/s): {} misses, {} violations",
        sound.runs,
        sound.engine,
        sound.jobs,
        sound.seconds,
        sound.runs as f64 / sound.seconds,
        sound.misses,
        sound.violations
    );
    Ok(())
}

fn report_copies(
    arguments: &Arguments,
    sets: u64,
    effort: Effort,
    start: Instant,
) -> anyhow::Result<bool> {
    let engines = if arguments.idle {
        Engines::Idle
    } else {
        Engines::Loaded
    };
    let tally = search(sets, engines, effort);
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&tally)?);
    } else {
        for what in [&tally.violation, &tally.miss].into_iter().flatten() {
            println!("{what}\n");
        }
        println!(
            "{} sets with in-job copies in {seconds:.1} s, C with {} engines: {} admitted, {} skipped, {} jobs, \
             {} with copies, {} slowed by swaps, {} misses, {} violations",
            tally.sets,
            if arguments.idle { "idle" } else { "loaded" },
            tally.admitted,
            tally.skipped,
            tally.jobs,
            tally.copying,
            tally.slowed,
            tally.misses,
            tally.violations
        );
    }
    let is_as_promised = match engines {
        Engines::Loaded => tally.misses == 0 && tally.jobs > 0,
        Engines::Idle => tally.misses > 0,
    };
    Ok(is_as_promised && tally.violations == 0)
}

fn report_refuted(arguments: &Arguments, effort: Effort, start: Instant) -> anyhow::Result<bool> {
    let rules = rules(&arguments.rule);
    if rules.is_empty() {
        bail!("no such rule: --refuted alone lists all of them");
    }
    let climbs = if arguments.climbs == 0 {
        2_000
    } else {
        arguments.climbs
    };
    let rules = refute(&rules, climbs, effort);
    let all = rules.iter().all(|rule| rule.found.is_some());
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        let refuted = RefutedRules {
            version: 1,
            seconds,
            rules,
        };
        println!("{}", serde_json::to_string_pretty(&refuted)?);
        return Ok(all);
    }
    println!(
        "{:32} {:>7} {:>9} {:>5} {:>5} {:>9} {:>8}",
        "rule", "climbs", "runs", "tasks", "jobs", "deadline", "response"
    );
    for rule in &rules {
        match &rule.found {
            Some(found) => println!(
                "{:32} {:>7} {:>9} {:>5} {:>5} {:>9} {:>8}",
                rule.rule,
                rule.climbs,
                rule.runs,
                found.case.tasks.len(),
                found.case.jobs(),
                found.deadline,
                found.response
            ),
            None => println!(
                "{:32} {:>7} {:>9}  not refuted",
                rule.rule, rule.climbs, rule.runs
            ),
        }
    }
    println!("\n{} rules in {seconds:.1} s", rules.len());
    Ok(all)
}

/// Writes the smallest counterexample to each rule that can be found.
fn keep(arguments: &Arguments, effort: Effort, folder: &PathBuf) -> anyhow::Result<bool> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let climbs = if arguments.climbs == 0 {
        50
    } else {
        arguments.climbs
    };
    let mut all = true;
    for rule in rules(&arguments.rule) {
        let Some(found) = smallest(&rule, climbs, effort) else {
            println!("{}: none", rule.name);
            all = false;
            continue;
        };
        let path = folder.join(format!("{}.json", rule.name));
        fs::write(&path, serde_json::to_string_pretty(&found)? + "\n")
            .with_context(|| format!("{}", path.display()))?;
        println!(
            "{}: response {} for D = {}",
            rule.name, found.response, found.deadline
        );
    }
    Ok(all)
}
