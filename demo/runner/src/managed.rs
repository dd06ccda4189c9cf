//! Phase 2: the same four programs under rtswapd.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::bench::{Bench, GpuInfo};
use crate::child::{Line, Program};
use crate::interrupt::Interrupt;
use crate::report::DnnReport;
use crate::stalls::{StallWitness, Stalls};
use crate::status::{self, Status};
use crate::tasks::{GpuModel, Task};

/// Jobs before those that count: the first loads, the second waits for the last to have loaded.
const WARMUP: &str = "2";
const POLL: Duration = Duration::from_millis(20);
/// How often the daemon is asked for its account.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// What a run under rtswap came to.
pub(crate) struct Managed {
    /// The tasks in their order.
    pub tasks: Vec<Outcome>,
    /// The plan's utilization, once all were in it.
    pub utilization: f64,
    /// What the host did meanwhile.
    pub stalls: Stalls,
}

/// One task's run.
pub(crate) struct Outcome {
    /// Its process, gone by now.
    pub pid: u32,
    /// What the program says of itself.
    pub report: DnnReport,
    /// The daemon's last account of it.
    pub account: Option<status::Task>,
}

struct Session {
    task: Task,
    program: Program,
    bar: ProgressBar,
    report: Option<DnnReport>,
    ended: bool,
    complaint: String,
}

/// Runs the task set for `span`.
pub(crate) fn run(
    bench: &Bench,
    (model, info): (&GpuModel, &GpuInfo),
    tasks: &[Task],
    span: Duration,
    interrupt: &Interrupt,
) -> Result<Managed> {
    // The programs are dropped, and so ended, before the daemon.
    let mut daemon = start_daemon(bench, &model.daemon_toml(&info.uuid))?;
    status::wait_for_daemon(bench, &mut daemon, interrupt)?;
    let witness = StallWitness::start();
    let bars = MultiProgress::new();
    let mut sessions = Vec::new();
    for task in tasks {
        sessions.push(Session::start(bench, task, &info.uuid, span, &bars)?);
    }

    let mut accounts = HashMap::new();
    let mut utilization = 0.0_f64;
    let mut asked = Instant::now();
    let until = Instant::now() + span * 2 + Duration::from_mins(1);
    while sessions.iter().any(|session| !session.ended) {
        interrupt.check()?;
        ensure!(
            Instant::now() < until,
            "the tasks do not end: {}",
            unfinished(&sessions)
        );
        if let Some(status) = daemon.ended()? {
            bail!("rtswapd ended with {status}: {:?}", daemon.lines()?);
        }
        for session in &mut sessions {
            session.advance()?;
        }
        if asked.elapsed() >= STATUS_EVERY {
            asked = Instant::now();
            let Status { gpus, tasks } = status::ask(bench)?;
            utilization = gpus
                .iter()
                .map(|gpu| gpu.utilization)
                .fold(utilization, f64::max);
            accounts.extend(tasks.into_iter().map(|task| (task.name.clone(), task)));
        }
        thread::sleep(POLL);
    }
    let stalls = witness.stop();
    let outcomes = sessions.into_iter().map(|session| Outcome {
        pid: session.program.pid(),
        account: accounts.remove(session.task.name),
        report: session.report.expect("none ends well without"),
    });
    let tasks = outcomes.collect();
    daemon.stop();
    Ok(Managed {
        tasks,
        utilization,
        stalls,
    })
}

fn start_daemon(bench: &Bench, toml: &str) -> Result<Program> {
    let config = bench.path("rtswapd.toml");
    fs::write(&config, toml)?;
    fs::create_dir_all(bench.path("run"))?;
    let mut command = bench.command("rtswapd", "rtswap")?;
    command
        .arg("--config")
        .arg(config)
        .arg("--runtime-dir")
        .arg(bench.path("run"));
    Program::start(command)
}

fn unfinished(sessions: &[Session]) -> String {
    let names = sessions.iter().filter(|session| !session.ended);
    names
        .map(|session| session.task.name)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Session {
    fn start(
        bench: &Bench,
        task: &Task,
        gpu: &str,
        span: Duration,
        bars: &MultiProgress,
    ) -> Result<Self> {
        let jobs = task.jobs_in(span).max(1);
        let mut command = bench.command("rtswapctl", "rtswap")?;
        command
            .arg("run")
            .args(task.run_arguments(gpu))
            .arg("--agent")
            .arg(bench.binary("librtswap_cuda.so"))
            .arg("--")
            .arg(bench.binary("dnn"))
            .args(task.dnn_arguments())
            .args([
                "--json",
                "--progress",
                "--warmup",
                WARMUP,
                "--jobs",
                &jobs.to_string(),
            ]);
        let style = ProgressStyle::with_template("{prefix:<10} {bar:40} {pos:>4}/{len} jobs")?;
        let bar = bars.add(
            ProgressBar::new(jobs)
                .with_style(style)
                .with_prefix(task.name),
        );
        bar.tick();
        let program = Program::start(command)?;
        let task = task.clone();
        Ok(Self {
            task,
            program,
            bar,
            report: None,
            ended: false,
            complaint: String::new(),
        })
    }

    /// Reads what it wrote; an error where it ended otherwise than by its report.
    fn advance(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let ended = self.program.ended()?;
        let name = self.task.name;
        for line in self.program.lines()? {
            match line {
                Line::Out(text) if text.starts_with('{') => {
                    let report = serde_json::from_str(&text);
                    self.report = Some(report.with_context(|| format!("{name}: {text}"))?);
                    self.bar.finish();
                }
                Line::Err(text) => match text.strip_prefix("job ").map(str::parse) {
                    Some(Ok(jobs)) => self.bar.set_position(jobs),
                    _ => self.complaint = text,
                },
                Line::Out(_) => {}
            }
        }
        if let Some(status) = ended {
            // Wrong results are reported, and are the report's to judge.
            ensure!(
                self.report.is_some() && matches!(status.code(), Some(0 | 1)),
                "{name} ended with {status} under rtswap: {}",
                self.complaint
            );
            self.ended = true;
        }
        Ok(())
    }
}
