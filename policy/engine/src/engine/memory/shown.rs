//! What the witnesses show of each managed process, for its group to believe its agent by, and what is
//! said of an agent that nobody bears out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use crate::engine::Engine;
use crate::sessions::SessionId;

impl Engine {
    /// Tells each group on a GPU what the witnesses show of its processes.
    pub(in crate::engine) fn show_all(&mut self, gpu: usize) {
        let sessions = self.sessions.iter();
        let here =
            sessions.filter(|(_, it)| it.devices.get(gpu).is_some_and(|it| it.task.is_some()));
        let here: Vec<_> = here.map(|(id, _)| id).collect();
        for id in here {
            self.show(gpu, id);
        }
    }

    /// Tells the group of a process what the witnesses show of it on a GPU: of several sessions of one
    /// process each is shown what the others leave.
    pub(in crate::engine) fn show(&mut self, gpu: usize, id: SessionId) {
        let Some((task, shown)) = self.shown(gpu, id) else {
            return;
        };
        let now = self.now;
        let group = self.tasks.group(task);
        if group.is_some_and(|group| group.record_shown(now, id.process, shown)) {
            self.gpus[gpu].work.drain(task);
        }
    }

    /// The task of a session on a GPU, and what the witnesses show of its process there.
    fn shown(&self, gpu: usize, id: SessionId) -> Option<(TaskId, Bytes)> {
        let session = self.sessions.get(id)?;
        let (pid, task) = (session.peer.pid, session.devices.get(gpu)?.task?);
        let siblings = self.sessions.of_pid(pid).filter(|(other, _)| *other != id);
        let held = siblings.filter_map(|(other, session)| {
            let task = self.tasks.get(session.devices.get(gpu)?.task?)?;
            Some(task.group.held_by(other.process))
        });
        let held: Bytes = held.sum();
        let shown = self.gpus[gpu].account.shown(pid);
        Some((task, shown.saturating_sub(held)))
    }

    /// What an agent says beyond its budget while no other witness shows it; none where it says no such
    /// thing, or said so already.
    pub(in crate::engine) fn unproven(&mut self, gpu: usize, id: SessionId) -> Option<String> {
        let device = self.sessions.get_mut(id)?.devices.get_mut(gpu)?;
        let group = self.tasks.group(device.task?)?;
        let unproven = group.unproven(id.process);
        let is_said = mem::replace(&mut device.is_unproven, unproven.is_some());
        let says = unproven.filter(|_| !is_said)?;
        let budget = group.budget_of(id.process);
        self.hurry_nvml(true);
        Some(format!(
            "its agent says that it holds {says} with a budget of {budget}, and no other witness shows \
             it: the rest is charged to nobody, and the process runs no job until it fits"
        ))
    }
}
