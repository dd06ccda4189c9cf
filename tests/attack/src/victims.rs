//! Those who must not notice: two realtime tasks that swap, a best-effort one of an ordinary user, and a process that
//! has nothing to do with a GPU.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Program, wait_until};

/// Longer than any of them needs to start.
const BOUND: Duration = Duration::from_secs(30);

/// The first of the realtime tasks: its wait for a grant is what is measured.
pub(crate) const CAMERA: &str = "camera-of-the-victim";
/// The period of the first.
pub(crate) const CAMERA_PERIOD: Duration = Duration::from_millis(100);
/// The second, with which the first does not fit on the GPU.
pub(crate) const PLANNER: &str = "planner-of-the-victim";
/// The best-effort task.
pub(crate) const PAINTER: &str = "painter-of-the-victim";

/// A realtime task's declaration and its program.
struct Realtime {
    name: &'static str,
    period: Duration,
}

const REALTIME: [Realtime; 2] = [
    Realtime {
        name: CAMERA,
        period: CAMERA_PERIOD,
    },
    // No multiple of the other's period: the two meet in every way.
    Realtime {
        name: PLANNER,
        period: Duration::from_millis(230),
    },
];

/// One job by its program's own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// From its release to its grant.
    pub wait: Duration,
    /// From its release to its completion.
    pub response: Duration,
    /// Whether its result was right.
    pub right: bool,
}

/// The number of jobs that each victim had done at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark([usize; 3]);

/// The jobs of all victims between two marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// Waits for a grant of the first realtime task, sorted.
    pub waits: Vec<Duration>,
    /// Jobs of both realtime tasks that ended late.
    pub misses: u64,
    /// Jobs of the best-effort task.
    pub painted: usize,
    /// Wrong results of all.
    pub wrong: u64,
}

impl Jobs {
    /// The 99th percentile of the waits: the one that a hundredth of them exceeds, of two or more at least one. The
    /// worst of a few would be a matter of luck.
    pub(crate) fn p99(&self) -> Duration {
        let rank = self.waits.len() * 99 / 100;
        let wait = self.waits.get(rank.saturating_sub(1));
        wait.copied().unwrap_or_default()
    }
}

/// The victims at work.
pub(crate) struct Victims {
    camera: Program,
    planner: Program,
    painter: Program,
    idler: Program,
}

impl Victims {
    /// Starts them, and waits until all have done some jobs.
    pub(crate) fn start(machine: &Machine, bystander: u32) -> Result<Self> {
        let [camera, planner] = &REALTIME;
        let mut idler = as_user(bystander, "sleep");
        idler.arg("infinity");
        // Without NVML its agent is the first to tell of a GPU.
        let painter = Program::start(painter(machine, bystander))?;
        wait_until("the best-effort task runs", BOUND, || {
            !jobs(&painter).is_empty()
        })
        .with_context(|| painter.stderr())?;
        let mut victims = Self {
            camera: Program::start(camera.command(machine))?,
            planner: Program::start(planner.command(machine))?,
            painter,
            idler: Program::start(idler)?,
        };
        let begun = wait_until("the victims run", BOUND, || {
            let Mark(done) = victims.mark();
            done.iter().all(|jobs| *jobs >= 4) || victims.ended().is_some()
        });
        begun.with_context(|| victims.complaints())?;
        ensure!(victims.ended().is_none(), "{}", victims.complaints());
        victims.come_to_rest();
        Ok(victims)
    }

    /// Waits until none of them is late any more: what they load first takes its time.
    fn come_to_rest(&self) {
        const WHILE: Duration = Duration::from_millis(700);
        for _ in 0..10 {
            let from = self.mark();
            std::thread::sleep(WHILE);
            let jobs = self.between(from, self.mark());
            if jobs.misses == 0 && jobs.waits.len() > 4 {
                return;
            }
        }
    }

    /// The name of one that has ended.
    pub(crate) fn ended(&mut self) -> Option<&'static str> {
        let all = [
            (CAMERA, &mut self.camera),
            (PLANNER, &mut self.planner),
            (PAINTER, &mut self.painter),
            ("an idle process", &mut self.idler),
        ];
        all.into_iter()
            .find_map(|(name, program)| (!program.is_running()).then_some(name))
    }

    /// How many jobs each has done.
    pub(crate) fn mark(&self) -> Mark {
        Mark([&self.camera, &self.planner, &self.painter].map(|program| jobs(program).len()))
    }

    /// Whether each realtime task has done a job since.
    pub(crate) fn are_done_since(&self, Mark(before): Mark) -> bool {
        let Mark(now) = self.mark();
        now.iter()
            .zip(before)
            .take(2)
            .all(|(now, before)| *now > before)
    }

    /// What they did between two marks.
    pub(crate) fn between(&self, from: Mark, to: Mark) -> Jobs {
        let all = [&self.camera, &self.planner, &self.painter].map(jobs);
        let part = |at: usize| all[at].get(from.0[at]..to.0[at]).unwrap_or_default();
        let late = |at: usize| {
            let jobs = part(at).iter();
            jobs.filter(|job| job.response > REALTIME[at].period)
                .count() as u64
        };
        let mut waits: Vec<_> = part(0).iter().map(|job| job.wait).collect();
        waits.sort_unstable();
        let wrong = |at: usize| part(at).iter().filter(|job| !job.right).count() as u64;
        Jobs {
            waits,
            misses: late(0) + late(1),
            painted: part(2).len(),
            wrong: wrong(0) + wrong(1) + wrong(2),
        }
    }

    /// Their processes.
    pub(crate) fn pids(&self) -> [u32; 4] {
        [&self.camera, &self.planner, &self.painter, &self.idler].map(Program::pid)
    }

    fn complaints(&self) -> String {
        let all = [&self.camera, &self.planner, &self.painter];
        all.map(|program| {
            let said = program.stderr();
            let lines: Vec<_> = said
                .lines()
                .filter(|line| !line.starts_with("times "))
                .collect();
            lines.join("\n")
        })
        .join("\n")
    }
}

impl Realtime {
    fn command(&self, machine: &Machine) -> Command {
        let period = format!("{}ms", self.period.as_millis());
        let mut command = on_machine(machine, Command::new(installed(machine, "rtswapctl")));
        command.args(["run", "--name", self.name, "--class", "realtime"]);
        command.args(["--period", &period, "--wcet", "20ms"]);
        command.args(["--footprint", "30MiB", "--swappable", "24MiB", "--"]);
        workload(&mut command, machine, "24MiB", &period);
        command
    }
}

fn painter(machine: &Machine, bystander: u32) -> Command {
    let mut command = on_machine(machine, as_user(bystander, installed(machine, "rtswapctl")));
    command.args(["run", "--name", PAINTER, "--"]);
    workload(&mut command, machine, "4MiB", "120ms");
    command
}

fn workload(command: &mut Command, machine: &Machine, memory: &str, period: &str) {
    command.arg(installed(machine, "dnn"));
    command.args([
        "--memory", memory, "--layers", "4", "--period", period, "--times",
    ]);
}

/// A program that every user may run.
pub(crate) fn installed(machine: &Machine, name: &str) -> std::path::PathBuf {
    machine.path("bin").join(name)
}

/// A command of another user.
pub(crate) fn as_user(user: u32, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    let user = user.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
    command.arg(program.as_ref());
    command
}

/// The same with the machine's own variables.
pub(crate) fn on_machine(machine: &Machine, mut command: Command) -> Command {
    for (name, value) in machine.command("true").get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn jobs(program: &Program) -> Vec<Job> {
    program.stderr().lines().filter_map(job).collect()
}

fn job(line: &str) -> Option<Job> {
    let mut words = line.strip_prefix("times ")?.split(' ');
    let mut micros = || words.next()?.parse().ok().map(Duration::from_micros);
    Some(Job {
        wait: micros()?,
        response: micros()?,
        right: words.next()? == "right",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_and_half_of_one_is_not() {
        let read = job("times 812 20011 right").unwrap();
        assert_eq!(read.wait, Duration::from_micros(812));
        assert_eq!(read.response, Duration::from_micros(20_011));
        assert!(read.right && !job("times 1 2 wrong").unwrap().right);
        assert!(job("times 812 20").is_none() && job("job 3").is_none());
    }

    #[test]
    fn a_hundredth_exceeds_the_99th_percentile_and_one_at_least() {
        let of = |count: u64| Jobs {
            waits: (1..=count).map(Duration::from_millis).collect(),
            ..Jobs::default()
        };
        assert_eq!(of(100).p99(), Duration::from_millis(99));
        assert_eq!(of(15).p99(), Duration::from_millis(14));
        assert_eq!(of(1).p99(), Duration::from_millis(1));
        assert_eq!(of(0).p99(), Duration::ZERO);
    }
}
