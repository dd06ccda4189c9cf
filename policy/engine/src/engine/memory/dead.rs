//! The memory of dead processes: it is dying until NVML shows that the driver has it back, or until a
//! grace is over where NVML cannot tell.

use alloc::format;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use crate::engine::Engine;
use crate::input::Peer;
use crate::ledger::{Dead, Look, take_departed};
use crate::output::{Level, LogLine};
use crate::sample::{GpuSample, Identity};
use crate::timers::Timer;

impl Engine {
    /// A process of a task is gone from a GPU: follows the memory that it left there. `died` is false
    /// where it executed another program: it let go of all it held, and its pid lives on.
    pub(in crate::engine) fn track_dead_process(
        &mut self,
        gpu: usize,
        task: TaskId,
        peer: &Peer,
        died: bool,
    ) {
        if self.dying(gpu, task) == Bytes::ZERO {
            return;
        }
        let (now, grace) = (self.now, self.config.settings.release_grace);
        if self.gpus[gpu].account.last().is_none() {
            self.begin_grace(gpu, task, now + grace);
            return;
        }
        let identity = Identity {
            uid: peer.uid,
            comm: peer.comm.clone(),
            origin: None,
            start_ticks: peer.start_ticks,
        };
        let mut dead = Dead::new(task, peer.pid, identity, now, grace);
        dead.lives_on = !died;
        self.gpus[gpu].dead.push(dead);
        self.hurry_nvml(true);
    }

    /// What the dead processes of a task have left on a GPU, in bytes.
    pub(in crate::engine) fn dying(&self, gpu: usize, task: TaskId) -> Bytes {
        let status = self.gpus[gpu].scheduler.state().task(task);
        status.map_or(Bytes::ZERO, |status| status.dying)
    }

    /// Frees what has been dying long enough where NVML does not tell.
    pub(in crate::engine) fn graces_over(&mut self) {
        for (gpu, task) in self.nvml.graces.take_expired(self.now) {
            // NVML is asked about processes of the task that died since.
            if self.gpus[gpu].dead.iter().all(|dead| dead.task != task) {
                self.release(gpu, task);
            }
        }
        self.timers.set(Timer::Grace, self.nvml.graces.next());
    }

    /// Ends what is dying on a GPU where the driver has let go of it.
    pub(super) fn release_dead(&mut self, gpu: usize, began: Time, shown: Option<&GpuSample>) {
        let now = self.now;
        let mut dead = core::mem::take(&mut self.gpus[gpu].dead);
        let account = &self.gpus[gpu].account;
        let look = Look {
            began,
            now,
            sample: shown,
            trusted: account.is_trusted(),
            unattributed: shown.map_or(Bytes::ZERO, |shown| account.unattributed(shown)),
        };
        let departed = take_departed(&mut dead, &look, |task| self.dying(gpu, task));
        self.gpus[gpu].dead = dead;
        for late in departed.late {
            let seconds = (now - late.died).0 / 1_000_000_000;
            let text = format!(
                "{} is dead for {seconds} s, and its memory is not back yet: it stays counted; if the \
                 process hangs in the driver, dmesg says more",
                late.identity.comm
            );
            let line = LogLine::new(Level::Warn, text).user(Some(late.identity.uid));
            self.log(line.pid(late.pid).gpu(gpu));
        }
        for task in departed.gone {
            self.release(gpu, task);
        }
    }

    /// NVML does not tell any more what the dead processes on a GPU hold.
    pub(super) fn begin_graces(&mut self, gpu: usize) {
        for dead in core::mem::take(&mut self.gpus[gpu].dead) {
            let end = self.now.max(dead.died + dead.grace);
            self.begin_grace(gpu, dead.task, end);
        }
    }

    fn begin_grace(&mut self, gpu: usize, task: TaskId, end: Time) {
        self.nvml.graces.begin(gpu, task, end);
        self.timers.set(Timer::Grace, self.nvml.graces.next());
    }

    /// The memory that dead processes of a task left is free.
    fn release(&mut self, gpu: usize, task: TaskId) {
        if self.dying(gpu, task) > Bytes::ZERO {
            self.tell(gpu, Event::Released { task });
        }
    }
}
