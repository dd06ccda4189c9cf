//! What must hold of memory, of running jobs and of agents that are honest, by what is outside alone.

use rtswap_engine::output::News;
use rtswap_engine::{ConnectionId, RegistrationId};
use rtswap_policy::scheduler::{JobSeq, Sharing};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::device::Device;
use super::process::Process;
use super::world::World;
use super::{CAPACITY, CHUNK, GPUS, MS};

/// How long a process waits to be admitted to a job of its task that should be over.
const ADMISSION_TIMEOUT: Nanos = Nanos(100 * MS);

/// The latest job of a task on one GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskJob {
    number: u64,
    /// It should be over: a process may run again in it.
    is_stuck: bool,
    /// Since when its group knows that it ran past its WCET.
    pub(crate) overrun: Option<Time>,
}

impl World {
    /// What is held or may be taken on a GPU: by all processes with a page, by those without one that
    /// keep what they have, and by the dead.
    pub(crate) fn held(&self, gpu: usize) -> Bytes {
        self.held_by(gpu, |_| true)
    }

    fn held_by(&self, gpu: usize, counts: impl Fn(RegistrationId) -> bool) -> Bytes {
        let counts =
            |session: Option<(RegistrationId, _)>| session.is_none_or(|(id, _)| counts(id));
        let living = self.processes.iter().filter(|it| counts(it.session));
        let dead = self.nvml.dead.iter().filter(|it| counts(it.session));
        let living = living.map(|process| process.held(gpu));
        living.chain(dead.map(|dead| dead.bytes[gpu])).sum()
    }

    /// Checks that what is held fits, or only became less since it did not.
    pub(crate) fn check_memory(&self) {
        for (gpu, ceiling) in self.ceilings.iter().enumerate() {
            let held = self.held_by_honest(gpu);
            assert!(
                held <= *ceiling,
                "{held} are held on GPU {gpu}, of {ceiling}"
            );
        }
    }

    /// Without tasks with a liar: what it claims counts in place of what it has, and may become true.
    fn held_by_honest(&self, gpu: usize) -> Bytes {
        self.held_by(gpu, |registration| !self.liars.contains(&registration))
    }

    /// Takes in that the engine is quiet: what is less now stays so while there is no room for more.
    pub(crate) fn note_quiet(&mut self) {
        for gpu in 0..GPUS {
            let told = Bytes(self.nvml.told[gpu] * CHUNK);
            let less = self.ceilings[gpu].min(self.held_by_honest(gpu));
            self.ceilings[gpu] = less.max(CAPACITY - told);
        }
    }

    /// Whether the job that is granted now is one of a task with a job that others go on beside. Checks
    /// that no other task's job holds the GPU otherwise.
    pub(crate) fn is_beside(&self, pid: u32, gpu: usize) -> bool {
        let task = |process: &Process| process.session.map(|(registration, _)| registration);
        let has_stray = |of: &Process| {
            let mut group = self.processes.iter().filter(|it| task(it) == task(of));
            let job = task(of).and_then(|of| self.jobs.get(&(of, gpu)));
            // Its processes are admitted to a job that should be over.
            job.is_some_and(|job| job.is_stuck)
                || group.any(|it| self.is_stray(it, gpu) == Some(true))
        };
        let own = self.processes.iter().find(|it| it.pid == pid);
        let own = own.expect("a dead process takes no orders");
        if has_stray(own) {
            return true;
        }
        let others = self.processes.iter().filter(|it| task(it) != task(own));
        for other in others.filter(|_| self.setting.sharing == Sharing::Exclusive) {
            assert!(
                self.is_stray(other, gpu).is_none() || has_stray(other),
                "beside {:?} of {} on GPU {gpu} runs {pid}",
                other.devices[gpu].job,
                other.pid
            );
        }
        false
    }

    /// Whether others may go on beside the job that a process runs, for all that the engine has read;
    /// none where it runs none.
    fn is_stray(&self, process: &Process, gpu: usize) -> Option<bool> {
        let device = &process.devices[gpu];
        if process.is_liar || device.unread {
            return Some(true);
        }
        let job = device.job.filter(|job| job.granted.is_some())?;
        let is_revoked = device.page.revoked == Some(job.seq);
        let is_late = job.granted.is_some_and(|at| self.now - at > super::STRAY);
        let is_lost = process.connection.is_none() || job.is_beside;
        Some(is_revoked || is_late || is_lost)
    }

    /// The job that a process runs, for all that the engine has read.
    fn running(&self, process: &Process, gpu: usize) -> Option<JobSeq> {
        let link = self.links.get(&process.connection?)?;
        let completed = link.read[gpu].jobs.map(|jobs| jobs.completed);
        let granted = process.devices[gpu].page.granted;
        granted.filter(|_| completed != granted)
    }

    /// Whether a process is in a job of its task. One that is back with its own makes another job of the
    /// task, of which the others may be part again.
    fn is_in_job(&self, process: &Process, gpu: usize) -> bool {
        let running = self.running(process, gpu);
        running.is_some() && running != process.devices[gpu].resumed
    }

    pub(crate) fn group(&self, registration: RegistrationId) -> impl Iterator<Item = &Process> {
        let is_of = move |it: &&Process| it.session.is_some_and(|(id, _)| id == registration);
        self.processes.iter().filter(is_of)
    }

    /// Whether a registration is that of a realtime task on its GPU.
    fn is_realtime(&self, registration: RegistrationId, gpu: usize) -> bool {
        let mut tasks = self.registered.iter().zip(&self.setting.tasks);
        tasks.any(|(it, task)| task.gpu == Some(gpu) && it.is_some_and(|it| it.id == registration))
    }

    /// Checks that a process of a realtime task is granted once in a job of the task, unless that
    /// should be over.
    pub(crate) fn note_grant(&mut self, pid: u32, gpu: usize) {
        let own = self.processes.iter().position(|it| it.pid == pid);
        let own = own.expect("a dead process takes no orders");
        let Some((registration, _)) = self.processes[own].session else {
            return;
        };
        let is_other = |it: &Process| it.pid != pid && self.is_in_job(it, gpu);
        let is_first = !self.group(registration).any(is_other);
        let is_back = |it: &Process| it.pid != pid && self.running(it, gpu).is_some();
        let goes_on = self.group(registration).any(is_back);
        let is_realtime = self.is_realtime(registration, gpu);
        let is_honest = !self.liars.contains(&registration);
        let job = self.jobs.entry((registration, gpu)).or_default();
        if is_first {
            *job = TaskJob {
                number: job.number + 1,
                is_stuck: job.is_stuck && goes_on,
                overrun: None,
            };
        }
        let may_run_again = !is_realtime || job.is_stuck;
        let device = &mut self.processes[own].devices[gpu];
        assert!(
            may_run_again || !is_honest || device.ran_in != job.number,
            "{pid} runs twice in one job of {registration}"
        );
        device.ran_in = job.number;
    }

    /// Checks that no process waits longer than [`ADMISSION_TIMEOUT`] for a job of its task that should be over.
    pub(crate) fn check_admitted(&self) {
        for (&(registration, gpu), job) in &self.jobs {
            let Some(stuck) = job.overrun.filter(|_| !self.liars.contains(&registration)) else {
                continue;
            };
            let is_set_aside = |it: &Process| it.devices[gpu].is_set_aside;
            if !self.group(registration).any(|it| self.is_in_job(it, gpu))
                || self.group(registration).any(is_set_aside)
            {
                continue;
            }
            for process in self.group(registration) {
                let device = &process.devices[gpu];
                let takes_part = process.connection.is_some() && !device.returns;
                let waits = device.job.filter(|job| job.granted.is_none() && takes_part);
                let due = waits.and_then(|job| Some(stuck.max(job.read? + ADMISSION_TIMEOUT)));
                assert!(
                    due.is_none_or(|due| self.now < due),
                    "{} waits since {due:?} to be admitted: {:?}",
                    process.pid,
                    device.job
                );
            }
        }
    }

    /// Takes in news. Checks that no honest agent is blamed.
    pub(crate) fn heard(&mut self, news: &News) {
        let News::Violation { task, kind, detail } = news else {
            return;
        };
        let is_blame = matches!(*kind, "senseless-report" | "over-budget");
        let is_liar = self.liars.contains(task);
        assert!(!is_blame || is_liar, "{kind} of honest {task}: {detail}");
        if *kind == "swap-overdue" {
            let is_of = |it: &&mut Process| it.session.is_some_and(|(id, _)| id == *task);
            let group = self.processes.iter_mut().filter(is_of);
            group
                .flat_map(|it| &mut it.devices)
                .for_each(Device::note_overdue);
        }
        for gpu in 0..GPUS {
            let is_realtime = self.is_realtime(*task, gpu);
            if let Some(job) = self.jobs.get_mut(&(*task, gpu)) {
                job.is_stuck |= matches!(*kind, "overrun" | "undrainable");
                if *kind == "overrun" && is_realtime {
                    job.overrun.get_or_insert(self.now);
                }
            }
        }
    }

    /// Checks that the agent of a connection that the daemon closes gave a reason.
    pub(crate) fn check_closed(&self, connection: ConnectionId) {
        let mut processes = self.processes.iter();
        let Some(process) = processes.find(|it| it.connection == Some(connection)) else {
            return;
        };
        let Some((registration, _)) = process.session else {
            return;
        };
        // Beside another one its Hello adds up to too much, too.
        let boasters = self.group(registration).filter(|it| it.is_boaster);
        let is_alone = process.is_boaster && boasters.count() == 1;
        assert!(
            self.liars.contains(&registration) && !is_alone,
            "an agent is turned away without a reason: {process:?}"
        );
    }
}
