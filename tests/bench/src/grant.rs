//! From the request of a job to its grant, with the daemon's decision in it, beside a bare
//! ping-pong over two named pipes in the same run, and beside many idle sessions.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rtswap_e2e::{Machine, MachineOptions, Program, compile};

use crate::crowd::Crowd;
use crate::report::{Bound, Report};
use crate::stage::source;

/// For the rounds of one asker: thousands, each of a few ms on a busy machine.
const ROUNDS_BOUND: Duration = Duration::from_mins(5);
/// The paper's: 22.7 µs against 11.6 µs.
const PAPER: f64 = 22.7 / 11.6;

/// One way to ask.
struct Asker {
    class: &'static str,
    registration: &'static [&'static str],
    /// Before each request and each ping, in µs: the machine has come to rest, or has not.
    pause_us: u64,
    rounds: u32,
}

const BEST_EFFORT: Asker = Asker {
    class: "best-effort",
    registration: &["--name", "asker"],
    pause_us: 0,
    rounds: 3000,
};

const ASKERS: [Asker; 4] = [
    Asker {
        pause_us: 100,
        ..BEST_EFFORT
    },
    Asker {
        pause_us: 500,
        ..BEST_EFFORT
    },
    Asker {
        pause_us: 2000,
        rounds: 1000,
        ..BEST_EFFORT
    },
    // It may come only once a period, and beside best-effort no period is shorter than what a
    // best-effort job needs to leave the GPU.
    Asker {
        class: "realtime",
        registration: &[
            "--name",
            "asker",
            "--class",
            "realtime",
            "--period",
            "20ms",
            "--wcet",
            "1ms",
            "--footprint",
            "8MiB",
            "--swappable",
            "2MiB",
        ],
        pause_us: 12_000,
        rounds: 200,
    },
];

/// Sessions that do nothing, beside which a job is asked for.
const IDLE: usize = 1000;

/// Asks and pings, first with the GPU to itself, then beside idle sessions.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let machine = Machine::new(MachineOptions {
        daemon_toml: format!("[daemon]\nmax_tasks_per_user = {}", IDLE + 8),
        ..MachineOptions::default()
    })?;
    let program = compile(&source("grant"), &machine.path(""), &machine.driver_dir())?;
    let _daemon = machine.daemon()?;
    for asker in ASKERS {
        let (grant, ping) = ask(&machine, &program, &asker)?;
        let (class, pause) = (asker.class, asker.pause_us);
        let name = |what: &str| format!("{what}, {class}, {pause} µs apart");
        report.measured(&name("request to grant"), grant / 1e3, "µs");
        report.measured(&name("ping-pong over two named pipes"), ping / 1e3, "µs");
        report
            .measured(
                &name("request to grant over ping-pong"),
                grant / ping,
                "times",
            )
            .bound(Bound::most(1.25, 0.1));
    }
    report.measured(
        "the paper's request to grant over ping-pong",
        PAPER,
        "times",
    );
    beside_idle(report, &machine, &program)
}

/// What idle sessions add to a grant. Alone and beside them it is measured one after the other, so
/// that the machine is in the same state.
fn beside_idle(report: &mut Report, machine: &Machine, program: &Path) -> Result<()> {
    let asker = &ASKERS[1];
    let (alone, _) = ask(machine, program, asker)?;
    let mut idle = Crowd::new(machine, "idle")?;
    let mut command = machine.command(std::env::current_exe()?);
    command.args(["--stay", &IDLE.to_string()]);
    idle.add(command, IDLE)?;
    idle.wait(ROUNDS_BOUND)?;
    let (beside, _) = ask(machine, program, asker)?;
    idle.leave(ROUNDS_BOUND)?;
    let name = format!("request to grant beside {IDLE} idle sessions");
    report.measured(&name, beside / 1e3, "µs");
    report
        .measured(&format!("{name}, over alone"), beside / alone, "times")
        .bound(Bound::most(1.3, 0.1));
    Ok(())
}

/// The medians of a request's way to its grant and of a ping's there and back, in ns.
fn ask(machine: &Machine, program: &Path, asker: &Asker) -> Result<(f64, f64)> {
    let mut command = machine.run(asker.registration, program);
    command.args([asker.rounds.to_string(), asker.pause_us.to_string()]);
    let answer = Program::start(command)?.finish(ROUNDS_BOUND)?.json()?;
    let times = |key: &str| -> Result<Vec<u64>> {
        let list = answer[key].as_array().context("no times")?;
        list.iter()
            .map(|ns| ns.as_u64().context("no time"))
            .collect()
    };
    Ok((median(times("grant_ns")?), median(times("ping_ns")?)))
}

/// The middle one of many.
pub(crate) fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default() as f64
}
