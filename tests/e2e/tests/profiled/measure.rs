//! A model is profiled while others watch it: the simulated GPU's own accounts, and the program's own clock.
//!
//! The agent's recorder is under test, so nothing of the truth comes from it, from the daemon or from a file of theirs.
//! Memory is what the simulated GPU handed out to the process, read from its shared memory. The time of a job is known
//! twice: by the configuration of the GPU ([`Model::known`]), which no clock of the host has a part in, and as the
//! program itself saw each of its jobs (`dnn --times`), which has all that the host added. The program cannot see one
//! part of an execution: nobody declares the end of its jobs, so that each lasts for an idle gap longer.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Program};
use rtswap_taskset::profile::{Profile, parse};
use simgpu_core::Observer;

use crate::models::Model;

/// Two runs, with all that starts them.
const BOUND: Duration = Duration::from_mins(3);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(50);
/// Between the end of one job and the release of the next, longer than any gap.
const PAUSE: Duration = Duration::from_millis(15);
/// Leaves the process id and what the program says of its jobs in the folder `$0`.
const WITNESSED: &str = r#"echo $$ >> "$0/pids"; exec "$@" 2> "$0/times.$$""#;

/// What the witnesses say of a model.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// The most that a process of it held on the GPU, with its context.
    pub(crate) footprint: u64,
    /// The same without the context: the program uses no array, no graph and nothing else that has to stay.
    pub(crate) swappable: u64,
    /// The time of a job by the configuration.
    pub(crate) known: Duration,
    /// The times of all jobs in the run alone and in the run beside copies, as the program saw them.
    pub(crate) own: [Vec<Duration>; 2],
}

/// `rtswapctl` with profiles of this machine's own.
pub(crate) fn rtswapctl(machine: &Machine) -> Command {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.env("XDG_DATA_HOME", machine.path("data"));
    command
}

/// Has a model profiled; what was measured, and what is true.
pub(crate) fn profile(machine: &Machine, model: &Model, jobs: usize) -> Result<(Profile, Truth)> {
    let observer = Observer::open(&machine.simgpu_dir())?;
    let known = model.known(&observer.config().gpus[0]);
    let folder = machine.path(model.name);
    fs::create_dir(&folder)?;
    let mut command = rtswapctl(machine);
    command
        .args(["profile", "--name", model.name, "--jobs"])
        .arg(jobs.to_string())
        .args(["--", "sh", "-c", WITNESSED])
        .arg(&folder)
        .arg(machine.dnn());
    model.arguments(&mut command);
    let period = format!("{}ms", (known + PAUSE).as_millis());
    command.args(["--times", "--warmup", "0", "--period", &period]);
    let mut program = Program::start(command)?;
    let mut truth = Truth {
        known,
        ..Truth::default()
    };
    let until = Instant::now() + BOUND;
    while program.is_running() && Instant::now() < until {
        for pid in pids(&folder) {
            let bytes = |of: Option<u64>| of.unwrap_or_default();
            truth.footprint = truth.footprint.max(bytes(machine.process_bytes(pid, 0)));
            truth.swappable = truth.swappable.max(bytes(machine.allocated_bytes(pid, 0)));
        }
        thread::sleep(LOOK);
    }
    let end = program.finish(Duration::from_secs(1))?;
    ensure!(end.status.success(), "{}{}", end.stdout, end.stderr);
    let runs = pids(&folder);
    ensure!(runs.len() == 2, "{runs:?}");
    for (own, pid) in truth.own.iter_mut().zip(runs) {
        *own = times(&folder.join(format!("times.{pid}")))?;
    }
    Ok((read(machine, model.name)?, truth))
}

/// The process ids of the runs so far, by themselves.
fn pids(folder: &Path) -> Vec<u32> {
    let said = fs::read_to_string(folder.join("pids")).unwrap_or_default();
    said.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The time of each job from its first GPU work being accepted to its result. All of them are right.
fn times(file: &Path) -> Result<Vec<Duration>> {
    let said = fs::read_to_string(file)?;
    let jobs = said.lines().filter(|line| line.starts_with("times "));
    let execution = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [_, wait, response, "right"] = words[..] else {
            return None;
        };
        let micros = response.parse::<u64>().ok()? - wait.parse::<u64>().ok()?;
        Some(Duration::from_micros(micros))
    };
    jobs.map(|line| execution(line).with_context(|| format!("{line:?} in {said}")))
        .collect()
}

fn read(machine: &Machine, name: &str) -> Result<Profile> {
    let file = machine.path(&format!("data/rtswap/profiles/{name}.toml"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(parse(&text)?)
}

/// The nearest-rank percentile, as the profile's.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}
