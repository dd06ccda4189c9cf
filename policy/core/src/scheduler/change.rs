//! A registered task becomes another: its class, its memory, its weight or the time that it may idle change under its
//! process.
//!
//! What a plan promised holds for what the task was. So a task whose class or memory changes leaves the plan and asks
//! for admission anew, as if it loaded; until nothing that began before is under way, the analysis charges the worse
//! of what it was and what it is.

use super::record::Phase;
use super::registry::sound;
use super::{Refusal, Scheduler};
use crate::task::{Class, TaskId, TaskSpec};
use crate::units::Bytes;

impl Scheduler {
    /// Makes a task `spec`, except for its name. Returns x under the plan.
    pub(super) fn make(&mut self, id: TaskId, spec: &TaskSpec) -> Result<Bytes, Refusal> {
        let task = self.state.tasks.get(id).filter(|task| task.registered);
        let task = task.ok_or(Refusal::UnknownTask(id))?;
        sound(spec)?;
        let is_same = (task.spec.class, task.spec.memory) == (spec.class, spec.memory)
            && task.next.is_some() == matches!(spec.class, Class::Realtime(_));
        if !is_same {
            let (before, commands) = (self.state.clone(), self.commands.len());
            if let Err(refusal) = self.join_anew(id, spec) {
                self.state = before;
                self.commands.truncate(commands);
                return Err(refusal);
            }
        }
        let task = self.task_mut(id);
        task.spec.weight = spec.weight;
        task.standing.weight = spec.weight;
        task.spec.idle_after = spec.idle_after;
        Ok(task.next.unwrap_or(Bytes::ZERO))
    }

    fn join_anew(&mut self, id: TaskId, spec: &TaskSpec) -> Result<(), Refusal> {
        self.leave_plan(id);
        let chunk = self.config.chunk;
        let task = self.task_mut(id);
        task.footprint = spec.memory.footprint.round_up(chunk);
        task.spec.class = spec.class;
        task.spec.memory = spec.memory;
        // What its last jobs showed was measured by another WCET.
        task.proved = false;
        task.cut = None;
        if matches!(spec.class, Class::Realtime(_)) {
            task.phase = Phase::Loading;
            task.next = Some(Bytes::ZERO);
            let volumes = self.solve()?;
            self.intend(&volumes);
        }
        self.update_volume(id);
        Ok(())
    }
}
