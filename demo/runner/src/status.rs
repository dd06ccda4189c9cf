//! What `rtswapctl status --json` says, as far as the demonstration shows it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::bench::Bench;
use crate::child::{Line, Program};
use crate::interrupt::Interrupt;

const POLL: Duration = Duration::from_millis(50);

/// The state of the daemon.
#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    /// By index.
    pub gpus: Vec<Gpu>,
    /// By registration.
    pub tasks: Vec<Task>,
}

/// One GPU.
#[derive(Debug, Deserialize)]
pub(crate) struct Gpu {
    /// Of the plan, swaps included.
    pub utilization: f64,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Task {
    /// Its name.
    pub name: String,
    /// Bytes and time of all swaps so far, by the agent.
    pub swap_out_bytes_total: u64,
    pub swap_in_bytes_total: u64,
    pub swap_out_us_total: u64,
    pub swap_in_us_total: u64,
}

impl Task {
    /// Bytes of all its swaps, both ways.
    pub(crate) fn swapped(&self) -> u64 {
        self.swap_out_bytes_total + self.swap_in_bytes_total
    }

    /// The share of the link that its swaps reached, each direction against its own rate in GiB/s.
    pub(crate) fn link_share(&self, (out, into): (f64, f64)) -> Option<f64> {
        const GIB: f64 = 1_073_741_824.0;
        let spent_us = self.swap_out_us_total + self.swap_in_us_total;
        let modelled_s = self.swap_out_bytes_total as f64 / (out * GIB)
            + self.swap_in_bytes_total as f64 / (into * GIB);
        (spent_us > 0).then(|| modelled_s / (spent_us as f64 / 1e6))
    }
}

/// Asks once.
pub(crate) fn ask(bench: &Bench) -> Result<Status> {
    const BOUND: Duration = Duration::from_secs(20);
    let mut command = bench.command("rtswapctl", "rtswap")?;
    command.args(["status", "--json"]);
    let mut program = Program::start(command)?;
    let until = Instant::now() + BOUND;
    let status = loop {
        if let Some(status) = program.ended()? {
            break status;
        }
        ensure!(Instant::now() < until, "rtswapctl status gives no answer");
        thread::sleep(Duration::from_millis(2));
    };
    let (mut out, mut err) = (String::new(), String::new());
    for line in program.lines()? {
        match line {
            Line::Out(text) => out.push_str(&text),
            Line::Err(text) => err.push_str(&text),
        }
    }
    ensure!(status.success(), "rtswapctl status: {err}");
    serde_json::from_str(&out).with_context(|| format!("rtswapctl status: {out}"))
}

/// Waits until the daemon answers.
pub(crate) fn wait_for_daemon(
    bench: &Bench,
    daemon: &mut Program,
    interrupt: &Interrupt,
) -> Result<()> {
    const BOUND: Duration = Duration::from_secs(15);
    let until = Instant::now() + BOUND;
    loop {
        let Err(error) = ask(bench) else {
            return Ok(());
        };
        interrupt.check()?;
        if let Some(status) = daemon.ended()? {
            bail!("rtswapd ended with {status}: {:?}", daemon.lines()?);
        }
        ensure!(Instant::now() < until, "rtswapd does not serve: {error:#}");
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_link_weighs_both_directions() {
        let task = Task {
            name: "a".into(),
            swap_out_bytes_total: 1 << 30,
            swap_in_bytes_total: 1 << 30,
            swap_out_us_total: 2_000_000,
            swap_in_us_total: 2_000_000,
        };
        // 1 s out and 2 s in by the model, 4 s spent.
        assert_eq!(task.link_share((1.0, 0.5)), Some(0.75));
        let idle = Task {
            swap_out_us_total: 0,
            swap_in_us_total: 0,
            ..task
        };
        assert_eq!(idle.link_share((1.0, 1.0)), None);
    }
}
