//! Runs cases in processes of their own: one that crashes or hangs is a row, and hides no other.

use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::case::{Body, Case, Outcome, Row};
use crate::cases;
use crate::gpu::Gpu;

/// The longest that one case may take.
const BOUND: Duration = Duration::from_secs(20);

/// The option that makes this program a worker.
pub const WORKER: &str = "--worker";

/// Runs cases one after the other and gives each row to `tell`.
pub fn all(wanted: &[Case], mut tell: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut left = wanted;
    while let Some(first) = left.first() {
        // Those that may share a process, as long as nothing goes wrong in it.
        let shared = left.iter().take_while(|case| !case.is_alone()).count();
        let together = &left[..if first.is_alone() { 1 } else { shared }];
        let done = work(together)?;
        done.iter().for_each(&mut tell);
        left = &left[done.len()..];
        rows.extend(done);
    }
    Ok(rows)
}

/// Has a worker run cases until one goes wrong; at least one row.
fn work(cases: &[Case]) -> Result<Vec<Row>> {
    let mut worker = Worker::start(cases)?;
    let mut rows = Vec::new();
    for case in cases {
        let row = match worker.lines.recv_timeout(BOUND) {
            Ok(line) => serde_json::from_str(&line).with_context(|| line.clone())?,
            Err(RecvTimeoutError::Timeout) => case.row_of_end(format!("no end of it in {BOUND:?}")),
            Err(RecvTimeoutError::Disconnected) => case.row_of_end(worker.end()),
        };
        let row: Row = row;
        let went_wrong = row.outcome == Outcome::Differs || worker.has_ended();
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
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What cannot be read is missing in the text.
            let _ = stderr.read_to_string(&mut said);
        }
        let status = self
            .child
            .wait()
            .map_or_else(|error| error.to_string(), |status| status.to_string());
        let last = said.lines().last().unwrap_or_default();
        format!("ended with {status} {last}").trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
