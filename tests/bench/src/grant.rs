//! From the request of a job to its grant, with the daemon's decision in it, beside a bare
//! ping-pong over two named pipes in the same run.

use anyhow::{Context, Result};
use rtswap_e2e::{Machine, MachineOptions, Program, compile};

use crate::report::{Bound, Report};
use crate::stage::{BOUND, source};

/// Requests in one run.
const ROUNDS: usize = 2000;
/// Pauses between two, in µs: the machine has come to rest, or has not.
const PAUSES_US: [u64; 3] = [200, 500, 2000];
/// The paper's: 22.7 µs against 11.6 µs.
const PAPER: f64 = 22.7 / 11.6;

/// The registration of the task that asks.
const CLASSES: [(&str, &[&str]); 2] = [
    ("best-effort", &["--name", "asker"]),
    (
        "realtime",
        &[
            "--name",
            "asker",
            "--class",
            "realtime",
            "--period",
            "300us",
            "--wcet",
            "10us",
            "--footprint",
            "8MiB",
            "--swappable",
            "2MiB",
        ],
    ),
];

/// Asks and pings.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = compile(&source("grant"), &machine.path(""), &machine.driver_dir())?;
    let mut options = MachineOptions::default();
    options.daemon_toml.clear();
    let _daemon = machine.daemon()?;
    for (class, registration) in CLASSES {
        for pause in PAUSES_US {
            let mut command = machine.run(registration, &program);
            command.args([(ROUNDS).to_string(), pause.to_string()]);
            let answer = Program::start(command)?.finish(BOUND)?.json()?;
            let times = |key: &str| -> Result<Vec<u64>> {
                let list = answer[key].as_array().context("no times")?;
                list.iter()
                    .map(|ns| ns.as_u64().context("no time"))
                    .collect()
            };
            let grant = median(times("grant_ns")?);
            let ping = median(times("ping_ns")?);
            let name = |what: &str| format!("{what}, {class}, every {pause} µs, median");
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
    }
    report.measured(
        "the paper's request to grant over ping-pong",
        PAPER,
        "times",
    );
    Ok(())
}

/// The middle one of many.
pub(crate) fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default() as f64
}
