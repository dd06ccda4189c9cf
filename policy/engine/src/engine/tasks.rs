//! The tasks that schedulers know, each with its processes on one GPU.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec};

use super::Engine;
use crate::groups::ProcessGroup;
use crate::ids::RegistrationId;
use crate::registry::Registration;
use crate::rules::Shape;

/// A task in one GPU's scheduler. A registration has one for each GPU that it uses: a realtime task on
/// its own GPU from its registration, any other from the first sign of life there.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) registration: RegistrationId,
    /// The index of its GPU.
    pub(crate) gpu: usize,
    /// The scheduler has been told that the registration ended.
    pub(crate) has_ended: bool,
    /// The processes of the task on this GPU.
    pub(crate) group: ProcessGroup,
}

/// All of them, by number and by registration and GPU.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    all: BTreeMap<TaskId, Task>,
    by_registration: BTreeMap<(RegistrationId, usize), TaskId>,
    last: u32,
}

impl Tasks {
    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.all.get_mut(&id)
    }

    /// The processes of a task.
    pub(crate) fn group(&mut self, id: TaskId) -> Option<&mut ProcessGroup> {
        Some(&mut self.all.get_mut(&id)?.group)
    }

    /// The task of a registration on a GPU.
    pub(crate) fn on(&self, registration: RegistrationId, gpu: usize) -> Option<TaskId> {
        self.by_registration.get(&(registration, gpu)).copied()
    }

    /// All tasks of a registration, by the index of their GPU.
    pub(crate) fn of(
        &self,
        registration: RegistrationId,
    ) -> impl Iterator<Item = (usize, TaskId)> + Clone + '_ {
        let all = (registration, 0)..=(registration, usize::MAX);
        let tasks = self.by_registration.range(all);
        tasks.map(|(&(_, gpu), &task)| (gpu, task))
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let task = self.all.remove(&id)?;
        self.by_registration.remove(&(task.registration, task.gpu));
        Some(task)
    }
}

impl Engine {
    /// The task of a registration on a GPU; a best-effort one is made where there is none yet.
    pub(crate) fn ensure_task(&mut self, id: RegistrationId, gpu: usize) -> Option<TaskId> {
        if let Some(task) = self.tasks.on(id, gpu) {
            let known = self.tasks.get(task);
            if !known.is_some_and(|task| task.has_ended && task.group.is_empty()) {
                return Some(task);
            }
            // Its registration ended, then its last process left this GPU: the scheduler takes in no
            // other.
            self.tasks.remove(task);
            self.needs.remove(task);
        }
        self.add_task(id, gpu, Class::BestEffort).ok()
    }

    /// Registers a task with a GPU's scheduler, or says why it cannot be.
    pub(crate) fn add_task(
        &mut self,
        id: RegistrationId,
        gpu: usize,
        class: Class,
    ) -> Result<TaskId, String> {
        let entry = self.registry.get(id).ok_or("its registration has ended")?;
        let parked = entry.parked;
        let spec = spec_of(entry, class, &self.shape(entry));
        self.tasks.last += 1;
        let task = TaskId(self.tasks.last);
        let at = &mut self.gpus[gpu];
        let verdict = at.register(self.now, task, spec);
        let chunk = at.config.chunk;
        self.note_change();
        verdict.map_err(|refusal| refusal.to_string())?;
        let realtime = matches!(class, Class::Realtime(_));
        let entry = Task {
            registration: id,
            gpu,
            has_ended: false,
            group: ProcessGroup::new(task, chunk, realtime),
        };
        self.tasks.all.insert(task, entry);
        self.tasks.by_registration.insert((id, gpu), task);
        if parked {
            self.tell(gpu, Event::Park { task });
        }
        Ok(task)
    }

    pub(crate) fn registration_name(&self, id: RegistrationId) -> Option<&str> {
        Some(self.registry.get(id)?.task.name.as_str())
    }
}

/// What a scheduler is told of a registration that has this class there.
pub(super) fn spec_of(entry: &Registration, class: Class, shape: &Shape) -> TaskSpec {
    TaskSpec {
        name: entry.full_name(),
        class,
        memory: match class {
            Class::Realtime(_) => entry.task.memory,
            // It takes what it is given.
            Class::BestEffort => MemoryProfile::default(),
        },
        weight: shape.weight,
        idle_after: shape.idle_after,
    }
}
