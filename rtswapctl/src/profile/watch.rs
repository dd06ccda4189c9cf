//! One run of the program: until enough jobs have ended, or the program has.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rtswap_taskset::profile::{LEAST_JOBS, Record};

use crate::failure::Failure;
use crate::output;
use crate::trial::child::Program;
use crate::trial::daemon::PrivateDaemon;
use crate::trial::interrupt::Interrupt;
use crate::trial::place::Place;

/// Between two looks at what the agent wrote.
const LOOK: Duration = Duration::from_millis(200);
/// So many looks from one word on the progress to the next.
const LOOKS: u32 = 25;
/// What the agent reads the file's name from.
const VARIABLE: &str = "RTSWAP_RECORD";
/// What the driver reads the GPUs from that a program sees.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What both runs have in common.
pub(super) struct Runs<'a> {
    pub(super) daemon: &'a PrivateDaemon,
    pub(super) preload: &'a OsString,
    pub(super) program: &'a [OsString],
    pub(super) place: &'a Place,
    /// Whether the program sees this GPU alone.
    pub(super) steer: bool,
    pub(super) jobs: usize,
    /// How long the program may go without a job.
    pub(super) wait: Duration,
    pub(super) interrupt: &'a Interrupt,
}

/// What came of a run.
pub(super) struct Seen {
    /// Of the process with the most jobs.
    pub(super) record: Record,
    /// Other processes that had jobs.
    pub(super) others: usize,
}

impl Runs<'_> {
    /// Runs the program once.
    pub(super) fn run(&self, name: &str) -> Result<Seen, Failure> {
        let folder = self.daemon.folder().join(name);
        fs::create_dir(&folder)?;
        let (program, arguments) = self.program.split_first().expect("clap requires one");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(VARIABLE, folder.join("record"))
            .env_remove("RTSWAP_TASK");
        if self.steer {
            command.env(VISIBLE, &self.place.uuid);
        }
        let mut program = Program::start(self.daemon.manage(command, self.preload))?;
        program.close_input();
        let mut silence = Silence::begin(self.wait);
        for look in 1_u32.. {
            self.interrupt.sleep(LOOK)?;
            // Before the look at its end, after which it writes no more.
            let ended = program.ended()?;
            let seen = read(&folder)?;
            let count = seen.as_ref().map_or(0, |seen| seen.record.counted().len());
            if let Some(status) = ended {
                return match seen {
                    Some(seen) if count >= LEAST_JOBS => Ok(seen),
                    _ if !status.success() => Err(program.end(status).into()),
                    _ => Err(Failure::FewJobs { jobs: count }),
                };
            }
            if count >= self.jobs {
                program.stop();
                return read(&folder)?.ok_or(Failure::FewJobs { jobs: 0 });
            }
            let all = seen.map_or(0, |seen| seen.record.jobs.len());
            if silence.lasts(all, Instant::now()) {
                program.stop();
                return Err(Failure::NoJobs {
                    jobs: all,
                    gpu: self.place.uuid.clone(),
                    wait: self.wait,
                });
            }
            if look % LOOKS == 0 {
                output::note(&format!("{count} of {} jobs", self.jobs));
            }
        }
        unreachable!("it looks until the program ends")
    }
}

/// How long nothing has been new.
struct Silence {
    bound: Duration,
    jobs: usize,
    since: Instant,
}

impl Silence {
    fn begin(bound: Duration) -> Self {
        Self {
            bound,
            jobs: 0,
            since: Instant::now(),
        }
    }

    /// Whether there has been no further job for the bound.
    fn lasts(&mut self, jobs: usize, now: Instant) -> bool {
        if jobs != self.jobs {
            (self.jobs, self.since) = (jobs, now);
        }
        now.saturating_duration_since(self.since) >= self.bound
    }
}

/// What agents have written so far; none before the first job.
fn read(folder: &Path) -> Result<Option<Seen>, Failure> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder)? {
        let bytes = fs::read(entry?.path())?;
        records.extend(Record::read(&String::from_utf8_lossy(&bytes))?);
    }
    records.sort_by_key(|record| record.jobs.len());
    Ok(records.pop().map(|record| Seen {
        others: records.len(),
        record,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_given_up_once_no_job_came_for_so_long() {
        let bound = Duration::from_mins(2);
        let mut silence = Silence::begin(bound);
        let start = silence.since;
        let second = Duration::from_secs(1);
        assert!(!silence.lasts(0, start + second));
        assert!(silence.lasts(0, start + bound));
        assert!(!silence.lasts(1, start + bound + second));
        assert!(!silence.lasts(1, start + 2 * bound));
        assert!(silence.lasts(1, start + 2 * bound + second));
    }
}
