//! One run of two tasks that do not fit together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Stalls, wait_until};
use serde_json::Value;

/// Jobs of each task.
pub(crate) const JOBS: u64 = 24;
/// The period of each task in milliseconds.
pub(crate) const PERIOD_MS: u64 = 400;
/// Two or three chunks of 2 MiB pass over a link of 1 GiB/s in it.
pub(crate) const WINDOW: Duration = Duration::from_millis(6);

const BOUND: Duration = Duration::from_mins(1);
/// Until the daemon has told of the last job.
const COUNTED: Duration = Duration::from_secs(5);

/// What one run showed.
#[derive(Debug)]
pub(crate) struct Run {
    /// What the programs said at their end.
    pub reports: Vec<Value>,
    /// The tasks as the daemon told of them then.
    pub tasks: Vec<Value>,
    /// What the daemon had to say, a line each.
    pub warnings: Vec<String>,
    /// Windows in which bytes of one task left while bytes of the other came.
    pub both_ways: u32,
    /// How late a thread that wanted to run every window did.
    pub stalls: Stalls,
}

fn task(machine: &Machine, name: &str, phase_ms: u64) -> Result<Program> {
    let mut command = machine.run(
        &[
            "--name",
            name,
            "--period",
            &format!("{PERIOD_MS}ms"),
            "--wcet",
            "40ms",
            "--footprint",
            "44MiB",
            "--swappable",
            "36MiB",
        ],
        machine.dnn(),
    );
    command.args([
        "--json", "--hold", "--name", name, "--memory", "40MiB", "--layers", "8",
    ]);
    command.args(["--period", &format!("{PERIOD_MS}ms"), "--jobs"]);
    command.args([&JOBS.to_string(), "--phase", &format!("{phase_ms}ms")]);
    Program::start(command)
}

/// Watches what moves by the simulated GPU's own counters until `over`.
fn watch(machine: &Machine, pids: [u32; 2], over: &AtomicBool) -> (u32, Stalls) {
    // A job that misses its deadline may have been late from its release on, and its predecessor's before.
    let (mut both_ways, mut stalls) = (0, Stalls::new(Duration::from_millis(2 * PERIOD_MS)));
    let count = |pid| machine.counters(pid).unwrap_or_default();
    let mut before = pids.map(count);
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(WINDOW);
        let now = pids.map(count);
        let took = start.elapsed();
        stalls.record(took.saturating_sub(WINDOW));
        let left = |i: usize| now[i].d2h_bytes - before[i].d2h_bytes >= 1 << 20;
        let came = |i: usize| now[i].h2d_bytes - before[i].h2d_bytes >= 1 << 20;
        // A longer window may hold both one after the other.
        both_ways += u32::from(took < 2 * WINDOW && (left(0) && came(1) || left(1) && came(0)));
        before = now;
    }
    (both_ways, stalls)
}

/// Runs the two tasks under the admission test of that name.
pub(crate) fn run(test: &str) -> Result<Run> {
    let machine = Machine::new(MachineOptions {
        daemon_toml: format!("[scheduler]\ntest = \"{test}\""),
        ..MachineOptions::default()
    })?;
    let mut daemon = machine.daemon()?;
    let mut programs = vec![
        task(&machine, "even", 0)?,
        task(&machine, "odd", PERIOD_MS / 2)?,
    ];
    let pids = [programs[0].pid(), programs[1].pid()];
    let over = AtomicBool::new(false);
    let (ended, watched) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&machine, pids, &over));
        let ended: Result<()> = programs
            .iter_mut()
            .try_for_each(|program| program.wait_for_line("\"version\"", BOUND));
        over.store(true, Ordering::Relaxed);
        (ended, watcher.join().expect("the watcher ends"))
    });
    ended.with_context(|| format!("{:#?}\n{}", machine.status(), daemon.stderr()))?;
    let mut tasks: Vec<Value> = Vec::new();
    let idle = |tasks: &[Value]| tasks.iter().filter(|task| task["phase"] == "idle").count() == 2;
    // Whether that is so is judged beside how late the host was.
    let _ = wait_until("all jobs are counted", COUNTED, || {
        let task = |name| machine.task(name).ok().flatten();
        tasks = ["even", "odd"].into_iter().filter_map(task).collect();
        idle(&tasks) && tasks.iter().all(|task| task["jobs"].as_u64() >= Some(JOBS))
    });
    ensure!(idle(&tasks), "{tasks:#?}\n{}", daemon.stderr());
    // They hold their memory until they are killed.
    let mut reports = Vec::new();
    for program in &programs {
        let said = program.stdout();
        let report = said.lines().find(|line| line.starts_with('{'));
        reports.push(serde_json::from_str(
            report.context("a report was just there")?,
        )?);
    }
    ensure!(daemon.is_running(), "the daemon ended: {}", daemon.stderr());
    let (both_ways, stalls) = watched;
    let said = daemon.stderr();
    let warnings = said.lines().filter(|line| line.contains("WARN"));
    Ok(Run {
        reports,
        tasks,
        warnings: warnings.map(str::to_owned).collect(),
        both_ways,
        stalls,
    })
}
