//! One run of the program: until enough jobs have ended, or the program has.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rtswap_taskset::profile::{LEAST_JOBS, Record};

use crate::failure::Failure;
use crate::output;
use crate::trial::child::Program;
use crate::trial::daemon::PrivateDaemon;
use crate::trial::interrupt::Interrupt;

/// Between two looks at what the agent wrote.
const LOOK: Duration = Duration::from_millis(200);
/// So many looks from one word on the progress to the next.
const LOOKS: u32 = 25;
/// What the agent reads the file's name from.
const VARIABLE: &str = "RTSWAP_RECORD";

/// What both runs have in common.
pub(super) struct Runs<'a> {
    pub(super) daemon: &'a PrivateDaemon,
    pub(super) preload: &'a OsString,
    pub(super) program: &'a [OsString],
    pub(super) jobs: usize,
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
        let mut program = Program::start(self.daemon.manage(command, self.preload))?;
        program.close_input();
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
            if look % LOOKS == 0 {
                output::note(&format!("{count} of {} jobs", self.jobs));
            }
        }
        unreachable!("it looks until the program ends")
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
