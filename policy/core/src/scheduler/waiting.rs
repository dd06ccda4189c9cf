//! Which tasks wait outside the plan, and what stays on the GPU, for status.

use super::record::{Phase, Task};
use super::state::State;
use crate::task::TaskId;
use crate::units::{Bytes, Time};

impl State {
    /// The capacity mᴰ, in bytes.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Best-effort and loading tasks with a job or a request for memory that is not granted, by id.
    pub fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        let ids = self.tasks.ids();
        ids.filter(|id| self.awaited_bytes(*id).is_some())
    }

    /// Since when a task of [`Self::waiting`] waits; none for any other.
    pub fn waits_since(&self, id: TaskId) -> Option<Time> {
        self.awaited_bytes(id)?;
        let task = self.tasks.get(id)?;
        let job = task.job.as_ref().filter(|job| job.granted.is_none());
        let job = job.map(|job| job.requested);
        let want = task.want.map(|want| want.since);
        [job, want].into_iter().flatten().min()
    }

    /// The bytes that a task of [`Self::waiting`] must have on the GPU at once; none for any other.
    pub fn awaited_bytes(&self, id: TaskId) -> Option<Bytes> {
        let task = self.tasks.get(id)?;
        let waits_to_run = task.job.as_ref().is_some_and(|job| job.granted.is_none());
        if task.phase == Phase::Ready || !(waits_to_run || task.want.is_some()) {
            return None;
        }
        let wanted = task.want.map_or(Bytes::ZERO, |want| want.total);
        Some(task.need().max(wanted))
    }

    /// The tasks under the plan in effect by id, each with its name and the bytes that it may keep on
    /// the GPU whatever others need: all but its swap volume.
    pub fn planned_residents(&self) -> impl Iterator<Item = (TaskId, &str, Bytes)> {
        self.tasks.iter().filter_map(|(id, task)| {
            let bytes = task.footprint.max(task.holds());
            let bytes = bytes.saturating_sub(task.plan?);
            Some((id, task.spec.name.as_str(), bytes))
        })
    }

    /// What of all tasks outside the plan to come cannot be swapped, in bytes.
    pub(crate) fn unswappable_outside(&self) -> Bytes {
        let outside = self.tasks.values().filter(|task| task.next.is_none());
        outside.map(Task::unswappable).sum()
    }

    /// The tasks outside the plan in effect by id, each with the bytes that it keeps on the GPU whatever
    /// others need, because they cannot be swapped.
    pub fn unswappable(&self) -> impl Iterator<Item = (TaskId, Bytes)> {
        let outside = self.tasks.iter().filter(|(_, task)| task.plan.is_none());
        outside.map(|(id, task)| (id, task.unswappable()))
    }
}
