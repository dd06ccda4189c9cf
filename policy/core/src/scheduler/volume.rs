//! Backing stores follow the plan, or the arena where there is none. Where the host's memory is short, those that
//! hold nothing are given back.

use alloc::vec::Vec;

use super::record::Task;
use super::{Attachment, Command, EventError, Phase, Scheduler};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// A task without a job for so long is idle.
const IDLE: Nanos = Nanos(1_000_000_000);

impl Scheduler {
    /// Asks for another backing store where it should have another size. One question at a time:
    /// the answer brings the next.
    pub(super) fn update_volume(&mut self, id: TaskId) {
        let task = self.task(id);
        if task.attachment != Attachment::Attached || task.backing_asked.is_some() {
            return;
        }
        let planned = task.plan.max(task.next).unwrap_or(Bytes::ZERO);
        let mut wanted = match task.phase {
            Phase::Ready => planned.max(task.carried),
            Phase::Loading | Phase::BestEffort if task.has_shed => planned,
            Phase::Loading | Phase::BestEffort => planned.max(self.arena_step(id)),
        };
        wanted = wanted.max(task.out());
        if let Some(most) = task.backing_most
            && wanted > task.backing
        {
            wanted = wanted.min(most.max(task.backing));
        }
        self.ask_backing_store(id, wanted);
    }

    /// Asks for a backing store of `bytes`, unless it is that or an answer is outstanding.
    pub(super) fn ask_backing_store(&mut self, id: TaskId, bytes: Bytes) {
        let task = self.task_mut(id);
        // A smaller one is not asked for twice of an agent that never unpins.
        let shrinks = bytes < task.backing && !task.keeps_backing;
        if task.backing_asked.is_none() && (bytes > task.backing || shrinks) {
            // Whatever asks for more needs it now.
            task.has_shed &= bytes < task.backing;
            task.backing_asked = Some(bytes);
            self.emit(Command::SetBackingStore { task: id, bytes });
        }
    }

    /// A quarter more than the arena, so that pinning does not happen chunk by chunk; kept while
    /// it is enough and less than four times too large. The arena counts with what the budget
    /// lets it grow to, and with the budget request for which the store was grown.
    fn arena_step(&self, id: TaskId) -> Bytes {
        let task = self.task(id);
        let usage = task.usage;
        let unused = task.asked.saturating_sub(usage.resident);
        let wanted = task.want.filter(|want| want.pinning);
        let wanted = wanted.map_or(Bytes::ZERO, |want| want.total);
        let arena = (usage.arena + unused)
            .max(wanted)
            .round_up(self.config.chunk);
        if task.backing >= arena && task.backing.0 / 4 <= arena.0 {
            return task.backing;
        }
        (arena + Bytes(arena.0 / 4)).round_up(self.config.chunk)
    }

    /// Takes in whether the host's memory is short. While it is, idle best-effort tasks give back what of their
    /// stores holds nothing: one at a time, the one that has idled longest first. While others
    /// wait for the GPU, or there is a plan, a task with memory on the GPU keeps its store or gets it back: its memory
    /// may have to leave.
    pub(super) fn host_memory(&mut self, short: bool) {
        let waits = self.state.best_effort.iter().next().is_some() || !self.state.wants.is_empty();
        let is_planned = |task: &Task| task.plan.is_some() || task.next.is_some();
        let must_yield = waits || self.state.tasks.values().any(is_planned);
        let is_needed = |task: &Task| must_yield && task.arena_resident() > Bytes::ZERO;
        let tasks = self.state.tasks.iter();
        let shed = tasks.filter(|(_, task)| task.has_shed && (!short || is_needed(task)));
        let shed: Vec<_> = shed.map(|(id, _)| id).collect();
        for id in shed {
            self.task_mut(id).has_shed = false;
            self.update_volume(id);
        }
        if !short {
            return;
        }
        let now = self.state.now;
        let since = |task: &Task| task.last_left.max(task.last_given);
        let sheds = |task: &Task| {
            let idles = task.phase == Phase::BestEffort && task.job.is_none() && task.op.is_none();
            let is_unused = task.backing > task.out() && task.backing_asked.is_none();
            let may = !task.has_shed && !task.keeps_backing && !is_needed(task);
            idles && is_unused && may && since(task) + IDLE <= now
        };
        let idle = self.state.tasks.iter().filter(|(_, task)| sheds(task));
        if let Some((_, id)) = idle.map(|(id, task)| (since(task), id)).min() {
            self.task_mut(id).has_shed = true;
            self.update_volume(id);
        }
    }

    /// Asks again for what could not be pinned.
    pub(super) fn host_room(&mut self, id: TaskId) -> Result<(), EventError> {
        if self.known(id)?.attachment == Attachment::Attached {
            self.task_mut(id).backing_most = None;
            self.update_volume(id);
        }
        Ok(())
    }

    pub(super) fn backing(&mut self, id: TaskId, bytes: Bytes) -> Result<(), EventError> {
        let task = self.attached(id)?;
        if bytes < task.out() {
            return Err(EventError::Impossible {
                task: id,
                what: "of backing store, less than is in use",
                bytes,
            });
        }
        let now = self.state.now;
        let task = self.task_mut(id);
        let before = core::mem::replace(&mut task.backing, bytes);
        let asked = task.backing_asked.take();
        let wanted = task.want.as_mut();
        if let Some(want) = wanted.filter(|want| want.pinning && asked.is_some()) {
            want.stalled_since = now;
        }
        // An agent unpins in pieces, so that less than was asked may be given back.
        task.keeps_backing |= asked.is_some_and(|asked| bytes > asked && bytes >= before);
        let refused = asked.is_some_and(|asked| bytes < asked);
        if refused {
            task.backing_most = Some(bytes);
        } else if task.backing_most.is_some_and(|most| bytes > most) {
            task.backing_most = None;
        }
        let planned = task.plan.max(task.next).unwrap_or(Bytes::ZERO);
        // More may be possible with what can be pinned now.
        self.state.denied = None;
        if refused && bytes < planned {
            self.cannot_pin(id);
        }
        self.update_volume(id);
        Ok(())
    }
}
