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
use crate::status;
use crate::tasks::{GpuModel, Guest, Task};
use crate::witness::{self, Crossed};

/// Jobs before those that count: the first loads, the second waits for the last to have loaded.
const WARMUP: &str = "2";
const POLL: Duration = Duration::from_millis(20);
/// How often the daemon is asked for its account.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// What a run under rtswap came to.
pub(crate) struct Managed {
    /// The tasks in their order.
    pub tasks: Vec<Outcome>,
    /// The best-effort programs in their order.
    pub guests: Vec<Outcome>,
    /// The plan's utilization, once all were in it.
    pub utilization: f64,
    /// The witness's count of all tasks together, when the accounts were taken.
    pub crossed: Option<Crossed>,
    /// What the host did meanwhile.
    pub stalls: Stalls,
}

/// One task's run.
pub(crate) struct Outcome {
    /// What the program says of itself.
    pub report: DnnReport,
    /// The daemon's account of it, after its last job.
    pub account: status::Task,
}

struct Session {
    name: String,
    program: Program,
    bar: ProgressBar,
    report: Option<DnnReport>,
    complaint: String,
}

/// Runs the task set and the best-effort programs for `span`.
pub(crate) fn run(
    bench: &Bench,
    (model, info): (&GpuModel, &GpuInfo),
    (tasks, guests): (&[Task], &[Guest]),
    span: Duration,
    interrupt: &Interrupt,
) -> Result<Managed> {
    // The programs are dropped, and so ended, before the daemon.
    let mut daemon = start_daemon(bench, &model.daemon_toml(&info.uuid))?;
    status::wait_for_daemon(bench, &mut daemon, interrupt)?;
    let stalls = StallWitness::start();
    let bars = MultiProgress::new();
    let mut sessions = Vec::new();
    for task in tasks {
        sessions.push(Session::of_task(bench, task, &info.uuid, span, &bars)?);
    }
    for guest in guests {
        sessions.push(Session::of_guest(bench, guest, &info.uuid, span, &bars)?);
    }

    let mut utilization = 0.0_f64;
    let mut asked = Instant::now();
    let until = Instant::now() + span * 2 + Duration::from_mins(1);
    while sessions.iter().any(|session| session.report.is_none()) {
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
            let gpus = status::ask(bench)?.gpus;
            utilization = gpus
                .iter()
                .map(|gpu| gpu.utilization)
                .fold(utilization, f64::max);
        }
        thread::sleep(POLL);
    }
    let stalls = stalls.stop();
    let mut accounts = settled(bench)?;
    let pids: Vec<u32> = sessions
        .iter()
        .map(|session| session.program.pid())
        .collect();
    let crossed = bench
        .machine_dir("rtswap")
        .map(|machine| witness::crossed(&machine, &pids))
        .transpose()?;
    for session in &mut sessions {
        session.finish()?;
    }
    let outcomes = sessions.into_iter().map(|session| {
        let name = session.name;
        let account = accounts.remove(&name);
        Ok(Outcome {
            account: account.with_context(|| format!("the daemon has no account of {name}"))?,
            report: session.report.expect("the loop waits for it"),
        })
    });
    let mut all = outcomes.collect::<Result<Vec<_>>>()?;
    daemon.stop();
    Ok(Managed {
        guests: all.split_off(tasks.len()),
        tasks: all,
        utilization,
        crossed,
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

/// The daemon's accounts once all swaps have ended: they stay as they are.
fn settled(bench: &Bench) -> Result<HashMap<String, status::Task>> {
    const BOUND: Duration = Duration::from_secs(20);
    let until = Instant::now() + BOUND;
    let mut before = None;
    loop {
        let tasks = status::ask(bench)?.tasks;
        if before.as_ref() == Some(&tasks) {
            return Ok(tasks
                .into_iter()
                .map(|task| (task.name.clone(), task))
                .collect());
        }
        ensure!(Instant::now() < until, "tasks without jobs go on swapping");
        before = Some(tasks);
        thread::sleep(STATUS_EVERY);
    }
}

fn unfinished(sessions: &[Session]) -> String {
    let names = sessions.iter().filter(|session| session.report.is_none());
    names
        .map(|session| session.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

impl Session {
    fn of_task(
        bench: &Bench,
        task: &Task,
        gpu: &str,
        span: Duration,
        bars: &MultiProgress,
    ) -> Result<Self> {
        let jobs = task.jobs_in(span).max(1);
        let bar = ProgressBar::new(jobs).with_style(ProgressStyle::with_template(
            "{prefix:<10} {bar:40} {pos:>4}/{len} jobs",
        )?);
        let run = (task.run_arguments(gpu), task.dnn_arguments());
        let length = ["--jobs", &jobs.to_string()].map(String::from);
        Self::start(bench, task.name, run, length, bars.add(bar))
    }

    fn of_guest(
        bench: &Bench,
        guest: &Guest,
        gpu: &str,
        span: Duration,
        bars: &MultiProgress,
    ) -> Result<Self> {
        let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template(
            "{prefix:<10} best-effort {pos:>33} jobs",
        )?);
        let run = (guest.run_arguments(gpu), guest.dnn_arguments());
        let length = ["--duration", &format!("{}ms", span.as_millis())].map(String::from);
        Self::start(bench, &guest.name, run, length, bars.add(bar))
    }

    fn start(
        bench: &Bench,
        name: &str,
        (run, dnn): (Vec<String>, Vec<String>),
        length: [String; 2],
        bar: ProgressBar,
    ) -> Result<Self> {
        let mut command = bench.command("rtswapctl", "rtswap")?;
        command
            .arg("run")
            .args(run)
            .arg("--agent")
            .arg(bench.binary("librtswap_cuda.so"))
            .arg("--")
            .arg(bench.binary("dnn"))
            .args(dnn)
            .args([
                "--json",
                "--progress",
                // Until the daemon's account of it is taken.
                "--hold",
                "--warmup",
                WARMUP,
            ])
            .args(length);
        let bar = bar.with_prefix(name.to_owned());
        bar.tick();
        let program = Program::start(command)?;
        Ok(Self {
            name: name.to_owned(),
            program,
            bar,
            report: None,
            complaint: String::new(),
        })
    }

    /// Reads what it wrote; an error where it ended otherwise than by its report.
    fn advance(&mut self) -> Result<()> {
        let ended = self.program.ended()?;
        let name = &self.name;
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
        match ended {
            Some(status) if self.report.is_none() => {
                bail!(
                    "{name} ended with {status} under rtswap: {}",
                    self.complaint
                )
            }
            _ => Ok(()),
        }
    }

    /// Lets it end.
    fn finish(&mut self) -> Result<()> {
        const BOUND: Duration = Duration::from_secs(20);
        let name = &self.name;
        self.program.close_input();
        let until = Instant::now() + BOUND;
        loop {
            match self.program.ended()? {
                // Wrong results are reported, and are the report's to judge.
                Some(status) if matches!(status.code(), Some(0 | 1)) => return Ok(()),
                Some(status) => bail!("{name} ended with {status} under rtswap"),
                None => ensure!(Instant::now() < until, "{name} does not end"),
            }
            thread::sleep(POLL);
        }
    }
}
