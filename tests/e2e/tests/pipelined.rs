//! Two realtime tasks that do not fit together, under `test = "pipelined"`: while one leaves the GPU,
//! the other comes, and no deadline is missed.
#![allow(missing_docs)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const JOBS: u64 = 24;
const PERIOD_MS: u64 = 400;
/// Two or three chunks of 2 MiB pass over a link of 1 GiB/s in it.
const WINDOW: Duration = Duration::from_millis(6);

/// Until the daemon has told of the last job.
const COUNTED: Duration = Duration::from_secs(5);

/// What one run showed.
#[derive(Debug)]
struct Run {
    reports: Vec<Value>,
    tasks: Vec<Value>,
    /// What the daemon had to say, a line each.
    warnings: Vec<String>,
    /// Windows in which bytes of one task left while bytes of the other came.
    both_ways: u32,
    /// How late a thread that wanted to run every window did, the windows of the worst period together:
    /// each chunk that changes hands waits as often for a processor.
    stall: Duration,
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
fn watch(machine: &Machine, pids: [u32; 2], over: &AtomicBool) -> (u32, Duration) {
    let (mut both_ways, mut stall) = (0, Duration::ZERO);
    let period = Duration::from_millis(PERIOD_MS);
    let mut late = VecDeque::from(vec![
        Duration::ZERO;
        period.as_millis().div_ceil(WINDOW.as_millis()) as usize
    ]);
    let count = |pid| machine.counters(pid).unwrap_or_default();
    let mut before = pids.map(count);
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(WINDOW);
        let now = pids.map(count);
        let took = start.elapsed();
        late.pop_front();
        late.push_back(took.saturating_sub(WINDOW));
        stall = stall.max(late.iter().sum());
        let left = |i: usize| now[i].d2h_bytes - before[i].d2h_bytes >= 1 << 20;
        let came = |i: usize| now[i].h2d_bytes - before[i].h2d_bytes >= 1 << 20;
        // A longer window may hold both one after the other.
        both_ways += u32::from(took < 2 * WINDOW && (left(0) && came(1) || left(1) && came(0)));
        before = now;
    }
    (both_ways, stall)
}

fn run(test: &str) -> Result<Run> {
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
    ended.with_context(|| daemon.stderr())?;
    let mut tasks: Vec<Value> = Vec::new();
    let idle = |tasks: &[Value]| tasks.iter().filter(|task| task["phase"] == "idle").count() == 2;
    let all_counted = wait_until("all jobs are counted", COUNTED, || {
        let task = |name| machine.task(name).ok().flatten();
        tasks = ["even", "odd"].into_iter().filter_map(task).collect();
        idle(&tasks) && tasks.iter().all(|task| task["jobs"].as_u64() >= Some(JOBS))
    });
    // Two jobs are one where nobody had a processor to see the pause between them.
    ensure!(
        idle(&tasks) && (all_counted.is_ok() || is_stalled(watched.1)),
        "{tasks:#?}\n{}",
        daemon.stderr()
    );
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
    let (both_ways, stall) = watched;
    let said = daemon.stderr();
    let warnings = said.lines().filter(|line| line.contains("WARN"));
    Ok(Run {
        reports,
        tasks,
        warnings: warnings.map(str::to_owned).collect(),
        both_ways,
        stall,
    })
}

/// Whether a host that was late by so much in a period may have made a job late.
fn is_stalled(stall: Duration) -> bool {
    stall >= Duration::from_millis(PERIOD_MS / 4)
}

impl Run {
    /// No wrong byte, no lost job, memory moved both ways, and no deadline missed but by a host that
    /// stood still.
    fn check(&self) -> Result<()> {
        for (report, task) in self.reports.iter().zip(&self.tasks) {
            ensure!(
                report["checksum_errors"] == 0 && report["jobs"] == JOBS,
                "{self:#?}"
            );
            for moved in ["swap_out_bytes_total", "swap_in_bytes_total"] {
                // At least eight chunks a job.
                ensure!(
                    task[moved].as_u64() >= Some(JOBS * (16 << 20)),
                    "{moved}: {self:#?}"
                );
            }
            ensure!(
                is_stalled(self.stall) || task["deadline_misses"] == 0 && task["violations"] == 0,
                "{self:#?}\n{}",
                self.warnings.join("\n")
            );
        }
        Ok(())
    }

    /// The tasks' median response times, in ms.
    fn responses(&self) -> Vec<f64> {
        let median = |report: &Value| report["response_ms"]["p50"].as_f64().unwrap_or(f64::NAN);
        self.reports.iter().map(median).collect()
    }
}

#[test]
fn who_leaves_and_who_comes_overlap() -> Result<()> {
    let demand = run("demand")?;
    demand.check()?;
    let pipelined = run("pipelined")?;
    pipelined.check()?;
    for (name, run) in [("demand", &demand), ("pipelined", &pipelined)] {
        println!(
            "{name}: median responses {:?} ms, both ways in {} windows of {WINDOW:?}, host late by \
             {:?} in its worst period",
            run.responses(),
            run.both_ways,
            run.stall
        );
    }
    // One after the other meets in one window an exchange; overlapping fills several.
    ensure!(
        is_stalled(pipelined.stall)
            || (pipelined.both_ways >= 2 * JOBS as u32
                && pipelined.both_ways > 2 * demand.both_ways),
        "the copies do not overlap: {} windows, {} under demand",
        pipelined.both_ways,
        demand.both_ways
    );
    Ok(())
}
