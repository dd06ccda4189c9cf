//! What must hold of memory and of running jobs, by what is outside alone.

use rtswap_engine::RegistrationId;
use rtswap_policy::scheduler::Sharing;
use rtswap_policy::units::Bytes;

use super::process::Process;
use super::world::World;
use super::{CAPACITY, CHUNK, GPUS};

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
            group.any(|it| self.is_stray(it, gpu) == Some(true))
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
}
