//! Runs cases in processes of their own: one that crashes or hangs is a row, and hides no other.

use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::case::{Body, Case, Outcome, Row};
use crate::cases;
use crate::gpu::Gpu;

/// How long a process that is to end may take: the driver may keep it in the kernel, and nobody waits for that.
const DEATH: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// The option that makes this program a worker.
pub const WORKER: &str = "--worker";

/// Runs cases one after the other and gives each row to `tell` as soon as there is one; an error of it ends this.
pub fn all(wanted: &[Case], mut tell: impl FnMut(&Row) -> Result<()>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut left = wanted;
    while let Some(first) = left.first() {
        // Those that may share a process, as long as nothing goes wrong in it.
        let shared = left.iter().take_while(|case| !case.is_alone()).count();
        let together = &left[..if first.is_alone() { 1 } else { shared }];
        let done = work(together, &mut tell)?;
        left = &left[done.len()..];
        rows.extend(done);
    }
    Ok(rows)
}

/// Has a worker run cases until one goes wrong; at least one row.
fn work(cases: &[Case], tell: &mut impl FnMut(&Row) -> Result<()>) -> Result<Vec<Row>> {
    let mut worker = Worker::start(cases)?;
    let mut rows = Vec::new();
    for case in cases {
        let said = match worker.lines.recv_timeout(case.bound) {
            Ok(line) => {
                serde_json::from_str(&line).map_err(|_| format!("its process said {line:?}"))
            }
            Err(RecvTimeoutError::Timeout) => Err(format!("no end of it in {:?}", case.bound)),
            Err(RecvTimeoutError::Disconnected) => Err(worker.end()),
        };
        let is_lost = said.is_err();
        let row: Row = said.unwrap_or_else(|end| case.row_of_end(end));
        tell(&row)?;
        let went_wrong = is_lost || row.outcome == Outcome::Differs || worker.has_ended();
        rows.push(row);
        if went_wrong {
            break;
        }
    }
    Ok(rows)
}

struct Worker {
    child: Child,
    lines: Receiver<String>,
}

impl Worker {
    fn start(cases: &[Case]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(WORKER)
            .args(cases.iter().map(|case| case.name))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting a worker")?;
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody listens any more once a case has gone wrong.
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// How it ended, and what it complained of.
    fn end(&mut self) -> String {
        let status = match reap(&mut self.child) {
            Ok(status) => status,
            Err(error) => return format!("closed its output, and {error}"),
        };
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What cannot be read is missing in the text.
            let _ = stderr.read_to_string(&mut said);
        }
        let last = said.lines().last().unwrap_or_default();
        format!("ended with {status} {last}").trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = reap(&mut self.child);
    }
}

/// Waits for the end of a process, but not for one that the driver keeps from ending.
fn reap(child: &mut Child) -> Result<ExitStatus> {
    let until = Instant::now() + DEATH;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        ensure!(Instant::now() < until, "no end of its process");
        thread::sleep(POLL);
    }
}

/// The worker: runs the cases of these names and prints a row for each.
pub fn worker(names: &[String]) -> Result<()> {
    let mut gpu = None;
    for name in names {
        let case = cases::by_name(name).ok_or_else(|| anyhow!("there is no case {name}"))?;
        let result = catch_unwind(AssertUnwindSafe(|| match case.body {
            Body::Bare(body) => body(),
            Body::Shared(body) | Body::Alone(body) => {
                if gpu.is_none() {
                    let opened = Gpu::open().context("opening the GPU")?;
                    opened.settle()?;
                    gpu = Some(opened);
                }
                body(gpu.as_ref().expect("opened"))
            }
        }));
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(anyhow!("{}", text.unwrap_or("it panicked")))
        });
        println!("{}", serde_json::to_string(&case.row(result))?);
    }
    Ok(())
}
