//! A holder: the packaged workload under a private daemon, parked and resumed to have its memory swapped.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rtswap_dbus::{Manager1Proxy, TaskProperties};
use rtswap_policy::cost::Sample;
use rtswap_policy::units::{Bytes, Nanos};
use zbus::OwnedObjectPath;

use crate::trial::TrialError;
use crate::trial::child::Program;
use crate::trial::daemon::PrivateDaemon;
use crate::trial::interrupt::Interrupt;
use crate::trial::place::Place;
use crate::trial::stalls::StallWitness;

/// How long its first job may take: the context, its memory, the expected result on the CPU.
const START: Duration = Duration::from_mins(1);
/// How long one swap may take, and what leads to it.
const SWAP: Duration = Duration::from_secs(30);
/// Between two of its jobs.
const PERIOD: &str = "20ms";
/// How often a swap is measured anew because the host stood still.
pub(super) const AGAIN: u32 = 10;

/// What both ways took, from the request to its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) out: Sample,
    pub(super) into: Sample,
    /// The host stood still meanwhile.
    pub(super) is_stalled: bool,
}

/// A running holder of so many chunks.
#[derive(Debug)]
pub(super) struct Holder<'a> {
    daemon: &'a PrivateDaemon,
    interrupt: &'a Interrupt,
    stalls: &'a StallWitness,
    program: Program,
    task: OwnedObjectPath,
    chunk: Bytes,
}

impl<'a> Holder<'a> {
    /// Returns after its first job, with all its memory on the GPU.
    pub(super) fn start(
        place: &Place,
        daemon: &'a PrivateDaemon,
        (preload, chunk, chunks): (&OsString, Bytes, u64),
        (interrupt, stalls): (&'a Interrupt, &'a StallWitness),
    ) -> Result<Self, TrialError> {
        let mut command = place.workload()?;
        command
            .args(["--memory", &(chunk.0 * chunks).to_string()])
            .args(["--layers", "1", "--period", PERIOD, "--progress"])
            // All chunks are to be copied, whether they changed or not.
            .env("RTSWAP_CLEAN", "off")
            .env_remove("RTSWAP_TASK");
        let mut program = Program::start(daemon.manage(command, preload))?;
        let pid = program.pid();
        let task = interrupt.wait(
            || "a program that holds memory runs its first job".to_owned(),
            START,
            || {
                program.must_run()?;
                let is_ready = program.said().iter().any(|line| line.starts_with("job "));
                let task = daemon.task_of(pid)?.map(|(path, _)| path);
                Ok(task.filter(|_| is_ready))
            },
        )?;
        Ok(Self {
            daemon,
            interrupt,
            stalls,
            program,
            task,
            chunk,
        })
    }

    /// Has its memory swapped out and in once; again where the host stood still meanwhile.
    pub(super) fn swap(&mut self) -> Result<Pair, TrialError> {
        undisturbed(|| self.swap_once())
    }

    fn swap_once(&mut self) -> Result<Pair, TrialError> {
        let start = Instant::now();
        let before = self.task()?;
        self.ask(async |manager, task| manager.park(task).await)?;
        let parked = self.wait("memory is swapped out", |task| {
            task.swapped_bytes > 0 && task.swap_out_bytes_total > before.swap_out_bytes_total
        })?;
        self.ask(async |manager, task| manager.resume(task).await)?;
        let resumed = self.wait("memory is swapped in", |task| {
            task.swapped_bytes == 0 && task.swap_in_bytes_total > before.swap_in_bytes_total
        })?;
        // The witness sees the end of a stall a moment after it.
        self.interrupt.sleep(Duration::from_millis(2))?;
        let chunk = self.chunk;
        let sample = |bytes: u64, micros: u64| Sample {
            chunks: bytes / chunk.0,
            chunk,
            took: Nanos(micros * 1_000),
        };
        Ok(Pair {
            out: sample(
                parked.swap_out_bytes_total - before.swap_out_bytes_total,
                parked.swap_out_usec_total - before.swap_out_usec_total,
            ),
            into: sample(
                resumed.swap_in_bytes_total - before.swap_in_bytes_total,
                resumed.swap_in_usec_total - before.swap_in_usec_total,
            ),
            is_stalled: self.stalls.since(start),
        })
    }

    fn ask(
        &self,
        call: impl AsyncFnOnce(&Manager1Proxy<'_>, &OwnedObjectPath) -> Result<(), rtswap_dbus::Error>,
    ) -> Result<(), TrialError> {
        let task = &self.task;
        self.daemon
            .manager(async |manager| call(manager, task).await)
    }

    fn task(&self) -> Result<TaskProperties, TrialError> {
        let objects = self.daemon.objects()?;
        let mut tasks = objects.tasks.into_iter();
        let own = tasks.find(|(path, _)| *path == self.task);
        own.map(|(_, task)| task)
            .ok_or_else(|| rtswap_dbus::Error::NoSuchTask(self.task.to_string()).into())
    }

    fn wait(
        &mut self,
        what: &str,
        is_done: impl Fn(&TaskProperties) -> bool,
    ) -> Result<TaskProperties, TrialError> {
        let interrupt = self.interrupt;
        interrupt.wait(
            || what.to_owned(),
            SWAP,
            || {
                self.program.must_run()?;
                Ok(Some(self.task()?).filter(&is_done))
            },
        )
    }
}

/// The first pair that the host let be, of so many tries; on a host that lets none be, the last.
fn undisturbed(mut swap: impl FnMut() -> Result<Pair, TrialError>) -> Result<Pair, TrialError> {
    for _ in 0..AGAIN {
        let pair = swap()?;
        if !pair.is_stalled {
            return Ok(pair);
        }
    }
    swap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_is_measured_until_the_host_lets_it_be_or_counts_as_held_up() {
        let sample = Sample {
            chunks: 1,
            chunk: Bytes(2 << 20),
            took: Nanos(1),
        };
        for (stalls, tries, is_stalled) in [
            (0, 1, false),
            (3, 4, false),
            (AGAIN, AGAIN + 1, false),
            (u32::MAX, AGAIN + 1, true),
        ] {
            let mut tried = 0;
            let pair = undisturbed(|| {
                tried += 1;
                Ok(Pair {
                    out: sample,
                    into: sample,
                    is_stalled: tried <= stalls,
                })
            });
            assert_eq!((tried, pair.unwrap().is_stalled), (tries, is_stalled));
        }
    }
}
