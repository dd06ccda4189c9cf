//! rtswapd attacked as an unprivileged user would, one attack after the other, beside two realtime tasks and a
//! best-effort one that must not notice.
//!
//! The daemon runs as root with the packaged unit's capabilities in namespaces of its own, over a simulated GPU.
//! `cargo xtask attack` builds what is started here. An attack that breaks a promise ends the run with 1.

mod attack;
mod attacker;
#[allow(
    clippy::unnecessary_wraps,
    reason = "what attacks do has one type in their table"
)]
mod attacks;
mod baseline;
mod crew;
mod host;
mod judge;
mod measure;
mod report;
mod stage;
mod unit;
mod victims;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;

use crate::attack::Attack;
use crate::attacker::Order;
use crate::host::Host;
use crate::measure::Run;
use crate::report::{Outcome, Report};

/// Attack rtswapd beside tasks that must not notice.
#[derive(Parser)]
#[command(name = "rtswap-attack")]
struct Cli {
    /// Only the attacks whose name begins so.
    prefixes: Vec<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Attack nothing, list the names.
    #[arg(long)]
    list: bool,
    /// Be one attacker of this attack: what a run starts.
    #[arg(long, hide = true, value_name = "NAME", requires_all = ["user", "millis", "folder", "room"])]
    as_attacker: Option<String>,
    /// The user that the attacker becomes.
    #[arg(long, hide = true)]
    user: Option<u32>,
    /// How long the attacker goes on.
    #[arg(long, hide = true)]
    millis: Option<u64>,
    /// The attacker's number among those of its attack.
    #[arg(long, hide = true, default_value_t = 0)]
    number: u32,
    /// The machine's folder.
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
    /// A folder that the attacker may write in.
    #[arg(long, hide = true)]
    room: Option<PathBuf>,
}

/// A machine gets slower for some minutes: only beside baselines of now is lateness an attack's. Attacks beside which the
/// victims were late are made again so often with a verdict, after all others.
const ROUNDS: u32 = 3;
/// So long those attacks together may wait for a host that does not stall, and be made without a verdict: no round counts them.
const PATIENCE: Duration = Duration::from_mins(10);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match (cli.as_attacker, cli.user, cli.millis, cli.folder, cli.room) {
        (Some(name), Some(user), Some(millis), Some(folder), Some(room)) => {
            let order = Order {
                name,
                number: cli.number,
                user,
                span: Duration::from_millis(millis),
                folder,
                room,
            };
            attacker::be(order).map(|()| true)
        }
        _ => run(&cli.prefixes, cli.json, cli.list),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rtswap-attack: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all attacks were held.
fn run(prefixes: &[String], json: bool, list: bool) -> Result<bool> {
    let wanted = |name: &str| {
        prefixes.is_empty()
            || prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    };
    let mut attacks = attacks::all();
    attacks.retain(|attack| wanted(attack.name));
    // A stage is made once.
    attacks.sort_by_key(|attack| attack.setting);
    ensure!(!attacks.is_empty(), "no attack's name begins so");
    if list {
        for attack in attacks {
            println!("{}", attack.name);
        }
        return Ok(true);
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "SKIPPED the attacks: only root can start a daemon as the unit does, and become other users"
        );
        return Ok(true);
    }
    let mut report = Report::default();
    let mut run = Run::new();
    for attack in &attacks {
        let outcome = run.of(attack)?;
        eprintln!("{}", outcome.line());
        report.attacks.push(outcome);
    }
    drop(run);
    let until = Instant::now() + PATIENCE;
    for round in 1..=ROUNDS {
        let all = attacks.iter().zip(&mut report.attacks);
        for (attack, outcome) in all.filter(|(_, outcome)| outcome.is_doubtful()) {
            eprintln!(
                "AGAIN: {} on a new stage with new baselines: {round} of {ROUNDS}",
                attack.name
            );
            *outcome = judged(attack, until)?;
            eprintln!("{}", outcome.line());
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    let broken = report.broken();
    eprintln!("{} attacks, {broken} broken", report.attacks.len());
    Ok(broken == 0)
}

/// Makes an attack once with a verdict, once more wherever the host was late without it.
fn judged(attack: &Attack, until: Instant) -> Result<Outcome> {
    loop {
        if let Err(stall) = Host::watch().calm(until) {
            eprintln!("UNCALM: {}: {stall:#}", attack.name);
        }
        // Fewer jobs than those of the last run would overturn what more have shown.
        let outcome = Run::new().last_of(attack)?;
        if !outcome.is_unjudged || Instant::now() >= until {
            return Ok(outcome);
        }
        eprintln!(
            "UNJUDGED: beside burners deadlines were missed too: {}",
            outcome.line()
        );
    }
}
