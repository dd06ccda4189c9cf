//! Chrome's trace event format as JSON, which ui.perfetto.dev and chrome://tracing open: complete
//! events on one row for each engine, and on one for each task its jobs from eligible to end,
//! with their swap-in and execution inside. Times are in microseconds since the start.
//!
//! The format is Google's "Trace Event Format" document.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use rtswap_policy::scheduler::{Direction, JobEnd, SwapOutcome};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

use super::Timeline;
use crate::record::{Change, Record, SwapRecord};

/// The processes of the trace: rows of the GPU, and rows of the tasks.
const GPU: u32 = 1;
const TASKS: u32 = 2;

/// The rows of the GPU.
const COMPUTE: u32 = 1;
const COPY_OUT: u32 = 2;
const COPY_IN: u32 = 3;

/// The trace of `timeline`.
pub fn trace(timeline: &Timeline) -> String {
    let mut trace = Trace {
        timeline,
        text: String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["),
        first: true,
    };
    // Writing to a string does not fail.
    let _ = trace.write();
    trace.text.push_str("\n]}\n");
    trace.text
}

struct Trace<'a> {
    timeline: &'a Timeline,
    text: String,
    first: bool,
}

impl Trace<'_> {
    fn write(&mut self) -> fmt::Result {
        let timeline = self.timeline;
        self.names(GPU, 0, "process_name", "GPU")?;
        for (row, name) in [
            (COMPUTE, "compute"),
            (COPY_OUT, "copy out"),
            (COPY_IN, "copy in"),
        ] {
            self.names(GPU, row, "thread_name", name)?;
        }
        self.names(TASKS, 0, "process_name", "tasks")?;
        for (place, name) in timeline.names.iter().enumerate() {
            self.names(TASKS, place as u32 + 1, "thread_name", name)?;
        }
        for job in &timeline.jobs {
            self.job(job)?;
        }
        for swap in &timeline.swaps {
            self.swap(swap)?;
        }
        self.swap_ins_of_jobs()?;
        for &(at, change) in &timeline.changes {
            self.change(at, change)?;
        }
        for violation in &timeline.violations {
            self.instant(violation.at, TASKS, row(violation.task))?;
            let name = alloc::format!("{:?}", violation.kind);
            write!(self.text, "{},\"args\":{{\"detail\":", Quoted(&name))?;
            write!(self.text, "{}}}}}", Quoted(&violation.detail))?;
        }
        Ok(())
    }

    /// The name of a process or of one of its rows.
    fn names(&mut self, pid: u32, tid: u32, what: &str, name: &str) -> fmt::Result {
        self.next()?;
        write!(
            self.text,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\
             \"args\":{{\"name\":{}}}}}",
            Quoted(name)
        )
    }

    fn job(&mut self, job: &Record) -> fmt::Result {
        let account = &job.account;
        let name = alloc::format!("job {}", account.job.0);
        self.complete(
            account.eligible,
            account.ended,
            TASKS,
            row(account.task),
            &name,
        )?;
        write!(
            self.text,
            ",\"args\":{{\"end\":\"{}\",\"requested_us\":{},\"queue_us\":{},\"swap_out_us\":{},\
             \"swap_in_us\":{},\"execution_us\":{},\"out_bytes\":{},\"out_operations\":{},\
             \"in_bytes\":{},\"in_operations\":{}",
            match account.end {
                JobEnd::Completed => "completed",
                JobEnd::Revoked => "revoked",
                JobEnd::TaskGone => "task gone",
            },
            self.at(account.requested),
            Micros(account.queue),
            Micros(account.swap_out),
            Micros(account.swap_in),
            Micros(account.execution),
            job.out.bytes.0,
            job.out.operations,
            job.in_.bytes.0,
            job.in_.operations,
        )?;
        if let Some(due) = account.deadline {
            write!(
                self.text,
                ",\"deadline_us\":{},\"late_us\":{}",
                self.at(due),
                Micros(account.lateness())
            )?;
        }
        if let Some(other) = account.blocked_by {
            write!(
                self.text,
                ",\"blocked_by\":{}",
                Quoted(self.timeline.name(other))
            )?;
        }
        self.text.push_str("}}");
        if let Some(granted) = account.granted {
            let (end, line) = (account.ended, row(account.task));
            self.complete(granted, end, TASKS, line, "execution")?;
            self.text.push('}');
            if self.timeline.computes_alone(job) {
                let name = self.timeline.name(account.task);
                self.complete(granted, end, GPU, COMPUTE, name)?;
                write!(self.text, ",\"args\":{{\"job\":{}}}}}", account.job.0)?;
            }
        }
        if account.lateness() > Nanos::ZERO
            && let Some(due) = account.deadline
        {
            self.instant(due, TASKS, row(account.task))?;
            self.text.push_str("\"deadline missed\"}");
        }
        Ok(())
    }

    fn swap(&mut self, swap: &SwapRecord) -> fmt::Result {
        let line = match swap.direction {
            Direction::Out => COPY_OUT,
            Direction::In => COPY_IN,
        };
        let name = self.timeline.name(swap.task);
        self.complete(swap.started, swap.ended, GPU, line, name)?;
        write!(
            self.text,
            ",\"args\":{{\"bytes\":{},\"outcome\":\"{}\"",
            swap.bytes.0,
            match swap.outcome {
                SwapOutcome::Done => "done",
                SwapOutcome::Aborted => "aborted",
                SwapOutcome::OutOfMemory => "out of memory",
                SwapOutcome::Undrainable => "undrainable",
                SwapOutcome::Failed => "failed",
            }
        )?;
        if let Some(other) = swap.beneficiary {
            let name = Quoted(self.timeline.name(other));
            write!(self.text, ",\"for\":{name}")?;
        }
        self.text.push_str("}}");
        Ok(())
    }

    /// The swap-ins that lie within a job of their task, on the task's row: rows must nest.
    fn swap_ins_of_jobs(&mut self) -> fmt::Result {
        let timeline = self.timeline;
        let mut jobs: Vec<Vec<&Record>> = alloc::vec![Vec::new(); timeline.names.len()];
        for job in &timeline.jobs {
            if let Some(of_task) = jobs.get_mut(job.account.task.0 as usize) {
                of_task.push(job);
            }
        }
        for swap in &timeline.swaps {
            let own = swap.beneficiary == Some(swap.task) && swap.direction == Direction::In;
            let Some(of_task) = jobs.get(swap.task.0 as usize).filter(|_| own) else {
                continue;
            };
            let place = of_task.partition_point(|job| job.account.ended < swap.ended);
            let inside = of_task.get(place).is_some_and(|job| {
                let granted = job.account.granted.unwrap_or(job.account.ended);
                job.account.eligible <= swap.started && swap.ended <= granted
            });
            if inside {
                self.complete(swap.started, swap.ended, TASKS, row(swap.task), "swap-in")?;
                self.text.push('}');
            }
        }
        Ok(())
    }

    fn change(&mut self, at: Time, change: Change) -> fmt::Result {
        let (task, what) = match change {
            Change::Admitted(task) => (task, "admitted"),
            Change::Refused(task) => (task, "refused"),
            Change::Ready(task) => (task, "ready"),
            Change::Departed(task) => (task, "departed"),
            Change::Capacity(bytes) => {
                self.next()?;
                return write!(
                    self.text,
                    "{{\"ph\":\"C\",\"ts\":{},\"pid\":{GPU},\"name\":\"capacity\",\
                     \"args\":{{\"bytes\":{}}}}}",
                    self.at(at),
                    bytes.0
                );
            }
        };
        self.instant(at, TASKS, row(task))?;
        write!(self.text, "\"{what}\"}}")
    }

    /// A complete event, still open for its arguments.
    fn complete(&mut self, from: Time, until: Time, pid: u32, tid: u32, name: &str) -> fmt::Result {
        self.next()?;
        write!(
            self.text,
            "{{\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{pid},\"tid\":{tid},\"name\":{}",
            self.at(from),
            Micros(until - from),
            Quoted(name)
        )
    }

    /// An instant, up to its name.
    fn instant(&mut self, at: Time, pid: u32, tid: u32) -> fmt::Result {
        self.next()?;
        write!(
            self.text,
            "{{\"ph\":\"i\",\"s\":\"t\",\"ts\":{},\"pid\":{pid},\"tid\":{tid},\"name\":",
            self.at(at)
        )
    }

    fn next(&mut self) -> fmt::Result {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        writeln!(self.text, "{comma}")
    }

    /// Since the start; what was before it is at it.
    fn at(&self, time: Time) -> Micros {
        Micros(time - self.timeline.start)
    }
}

fn row(task: TaskId) -> u32 {
    task.0 + 1
}

/// A span as decimal microseconds.
struct Micros(Nanos);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.0;
        write!(f, "{}", nanos / 1_000)?;
        match nanos % 1_000 {
            0 => Ok(()),
            rest => write!(f, ".{rest:03}"),
        }
    }
}

/// A JSON string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
