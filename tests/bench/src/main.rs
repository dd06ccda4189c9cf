//! What rtswap costs and how fast it moves memory. Real processes, the real agent and the real
//! daemon; where the simulated GPU's model is in a figure, the figure says so.
//!
//! `cargo xtask bench` builds what is started here. A run that misses a bound by more than its
//! tolerance ends with 1.

mod calls;
mod crowd;
mod draw;
mod fragmentation;
mod grant;
mod hello;
mod movement;
mod paper;
mod probes;
mod report;
mod scale;
mod sharing;
mod size;
mod stage;
mod switch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::report::Report;

/// Measure what rtswap costs and how fast it moves memory.
#[derive(Parser)]
#[command(name = "rtswap-bench")]
struct Cli {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Fail only by bounds that hold on a loaded machine too: counts, sizes, and times with much
    /// room.
    #[arg(long)]
    robust: bool,
    /// Measure only what has one of these names.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Say Hello so often, print the times, and do nothing else: what `hello` starts.
    #[arg(long, hide = true, value_name = "TIMES")]
    say_hello: Option<u32>,
    /// Say Hello in so many processes, and stay until the input ends: what `scale` starts.
    #[arg(long, hide = true, value_name = "PROCESSES")]
    stay: Option<u32>,
}

type Part = (&'static str, fn(&mut Report) -> Result<()>);

/// What the simulated link has no part in comes first.
const PARTS: [Part; 12] = [
    ("calls", calls::measure),
    ("grant", grant::measure),
    ("hello", hello::measure),
    ("size", size::measure),
    ("scale", scale::measure),
    ("probes", probes::measure),
    ("fragmentation", fragmentation::measure),
    ("movement", movement::sweep),
    ("duplex", movement::duplex),
    ("paper", paper::measure),
    ("switch", switch::measure),
    ("sharing", sharing::measure),
];
/// It takes longer than all others together, and is measured only where it is asked for.
const LONG: &str = "sharing";
/// Nothing in them holds on a loaded machine.
const TIMES_ONLY: [&str; 3] = ["probes", "switch", LONG];
const TIMED_BY_THE_LINK: [&str; 5] = ["movement", "duplex", "paper", "switch", LONG];

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(times) = cli.say_hello {
        return ended(hello::say(times).map(|()| true));
    }
    if let Some(processes) = cli.stay {
        return ended(hello::stay(processes).map(|()| true));
    }
    ended(run(&cli))
}

fn ended(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rtswap-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no bound is missed.
fn run(cli: &Cli) -> Result<bool> {
    let known = |name: &String| PARTS.iter().any(|(part, _)| part == name);
    if let Some(name) = cli.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
        anyhow::bail!("there is no part {name}; there are {}", names.join(", "));
    }
    let mut report = Report::new(machine(), cli.robust);
    for (name, part) in PARTS {
        if cli.robust && TIMES_ONLY.contains(&name) {
            eprintln!("{name}: left out, its times say nothing of a loaded machine");
        } else if cli.only.is_empty() && name == LONG {
            eprintln!("{name}: left out, about twenty minutes; --only {name} measures it");
        } else if cli.only.is_empty() || cli.only.iter().any(|only| only == name) {
            eprintln!("{name}");
            // What a robust run takes from them is counted.
            if TIMED_BY_THE_LINK.contains(&name) && !cli.robust {
                stage::check_host()?;
            }
            part(&mut report)?;
        }
    }
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    for figure in report.missed() {
        eprintln!("missed: {} = {}", figure.name, report::number(figure.value));
    }
    let missed = report.missed().count();
    eprintln!("{} figures, {missed} missed", report.figures.len());
    Ok(missed == 0)
}

/// Kernel and processors, for whoever compares two runs.
fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Linux {kernel}, {cores} cores")
}
