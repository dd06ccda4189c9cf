//! Events into a scheduler, its commands into effects, until both are quiet.

use rtswap_policy::scheduler::{Command, Event, EventError, Refusal, SwapOutcome};
use rtswap_policy::task::{Class, TaskId, TaskSpec};
use rtswap_policy::units::Time;

use super::memory::agent_bytes;
use super::{Dispatcher, News, Place, SessionId};
use crate::agent::session::Session;
use crate::members::{Effect, Members};
use crate::registry::RegistrationId;
use crate::source::agents::DeviceView;

impl Dispatcher {
    /// Hands one event to a GPU's scheduler and carries out all that follows.
    pub(super) fn feed(&mut self, gpu: usize, now: Time, event: Event) -> Result<(), EventError> {
        let result = self.hand_in(gpu, now, event);
        // What others say in turn is no fault of this event.
        let _ = self.carry_on(gpu, None, now);
        result
    }

    /// Hands in what the processes of a task say together, and carries out all that follows.
    pub(super) fn feed_members(
        &mut self,
        gpu: usize,
        task: TaskId,
        now: Time,
    ) -> Result<(), EventError> {
        self.restless.push(task);
        let said = self.drain(gpu, task, now);
        said.and(self.carry_on(gpu, Some(task), now))
    }

    fn hand_in(&mut self, gpu: usize, now: Time, event: Event) -> Result<(), EventError> {
        tracing::trace!(gpu, ?event);
        self.unpublished = true;
        self.gpus[gpu].scheduler.handle(now, event)
    }

    /// Carries out what a scheduler wants, and lets the processes of a task draw their conclusions
    /// once it wants nothing more. Refused may be what they say, of those of `heard` it is returned.
    fn carry_on(&mut self, gpu: usize, heard: Option<TaskId>, now: Time) -> Result<(), EventError> {
        let mut result = Ok(());
        loop {
            let task = if let Some(command) = self.gpus[gpu].scheduler.poll_command() {
                tracing::trace!(gpu, ?command);
                let Some(task) = self.carry_out(now, &command) else {
                    continue;
                };
                if !self.restless.contains(&task) {
                    self.restless.push(task);
                }
                task
            } else if let Some(&task) = self.restless.last() {
                if !self.members(task).is_some_and(Members::step) {
                    self.restless.retain(|other| *other != task);
                    continue;
                }
                task
            } else {
                return result;
            };
            let said = self.drain(gpu, task, now);
            if heard == Some(task) {
                result = result.and(said);
            } else if let Err(error) = said {
                tracing::error!(gpu, %error, "the scheduler refuses the daemon's own event");
            }
        }
    }

    /// Takes the effects of what was heard or obeyed.
    fn drain(&mut self, gpu: usize, task: TaskId, now: Time) -> Result<(), EventError> {
        let mut result = Ok(());
        while let Some(effect) = self.members(task).and_then(Members::poll) {
            match effect {
                Effect::Tell(event) => {
                    let answers = matches!(event, Event::BudgetSet { .. });
                    match self.hand_in(gpu, now, event) {
                        Err(error) if answers => self.disbelieve(gpu, now, task, &error),
                        handed => result = result.and(handed),
                    }
                }
                Effect::Do(member, command) => {
                    let holds = self.tell_agent(gpu, task, member, now, &command);
                    if matches!(command, Command::SetBudget { .. })
                        && let Some(members) = self.members(task)
                    {
                        let holds = holds.unwrap_or_else(|| members.budget_of(member));
                        members.holds(member, holds);
                    }
                }
            }
        }
        result
    }

    /// What pages answer to a command cannot be. The scheduler would wait for another answer for
    /// ever, so the sessions end.
    fn disbelieve(&mut self, gpu: usize, now: Time, task: TaskId, error: &EventError) {
        let Some(&Place { registration, .. }) = self.places.get(&task) else {
            return;
        };
        if self.complaints.allows(now) {
            tracing::warn!(task = registration.0, gpu, "senseless answer: {error}");
        }
        self.statistics.entry(registration).or_default().violations += 1;
        let all: Vec<_> = self.sessions_of(registration).map(|(id, _)| id).collect();
        for id in all {
            self.connection_ended(id, now);
        }
    }

    /// As [`Self::feed_members`], after what only the daemon itself can have caused.
    pub(super) fn feed_members_own(&mut self, gpu: usize, task: TaskId, now: Time) {
        if let Err(error) = self.feed_members(gpu, task, now) {
            tracing::error!(gpu, %error, "the scheduler refuses the daemon's own event");
        }
    }

    /// As [`Self::feed`], for an event that only the daemon itself can have caused.
    pub(super) fn feed_own(&mut self, gpu: usize, now: Time, event: Event) {
        if let Err(error) = self.feed(gpu, now, event) {
            tracing::error!(gpu, %error, "the scheduler refuses the daemon's own event");
        }
    }

    /// Gives a registration a task on a GPU, if it has none yet.
    pub(super) fn ensure_task(
        &mut self,
        registration: RegistrationId,
        gpu: usize,
        now: Time,
    ) -> Option<TaskId> {
        if let Some(task) = self.task_on(registration, gpu) {
            return Some(task);
        }
        self.add_task(registration, gpu, Class::BestEffort, now)?
            .inspect_err(|refusal| tracing::error!(gpu, %refusal, "a best-effort task is refused"))
            .ok()
    }

    /// Registers a task with a GPU's scheduler. None if there is no such registration.
    pub(super) fn add_task(
        &mut self,
        registration: RegistrationId,
        gpu: usize,
        class: Class,
        now: Time,
    ) -> Option<Result<TaskId, Refusal>> {
        let entry = self.registry.get(registration)?;
        let task = TaskId(self.next_task);
        self.next_task += 1;
        let spec = TaskSpec {
            name: Self::scheduler_name(entry.uid, &entry.name),
            class,
            memory: match class {
                Class::Realtime(_) => entry.memory,
                // It takes what it is given.
                Class::BestEffort => rtswap_policy::task::MemoryProfile::default(),
            },
        };
        let chunk = self.gpus[gpu].config.chunk;
        let realtime = matches!(class, Class::Realtime(_));
        let place = Place {
            registration,
            gpu,
            ended: false,
            members: Members::new(task, chunk, realtime),
        };
        self.places.insert(task, place);
        self.tasks.insert((registration, gpu), task);
        tracing::trace!(gpu, ?task, ?spec);
        self.unpublished = true;
        let verdict = self.gpus[gpu].scheduler.register(now, task, spec);
        if verdict.is_err() {
            self.places.remove(&task);
            self.tasks.remove(&(registration, gpu));
        }
        // What others say in turn does not change the verdict.
        let _ = self.carry_on(gpu, None, now);
        Some(verdict.map(|_| task))
    }

    /// Schedulers remember by name across users.
    fn scheduler_name(uid: u32, name: &str) -> String {
        if uid == rustix::process::geteuid().as_raw() {
            name.to_owned()
        } else {
            format!("{name}@{uid}")
        }
    }

    /// Reads all pages, whoever rang, and lets the members of each task look at the clock.
    pub(super) fn sweep(&mut self, now: Time) {
        let all: Vec<_> = self.sessions.keys().copied().collect();
        for session in all {
            self.read_pages(session, now, false);
        }
        let all: Vec<_> = self
            .places
            .iter()
            .map(|(task, at)| (at.gpu, *task))
            .collect();
        for (gpu, task) in all {
            if let Some(members) = self.members(task) {
                members.tick(now);
                self.feed_members_own(gpu, task, now);
            }
        }
    }

    /// Reads the pages of one session and feeds what is new.
    pub(super) fn read_pages(&mut self, id: SessionId, now: Time, rang: bool) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if !session.is_connected() {
            return;
        }
        let hold = self.recovery.holds();
        for gpu in 0..session.devices.len() {
            self.read_page(id, gpu, now, rang, hold);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.ring_again(now);
        }
    }

    fn read_page(&mut self, id: SessionId, gpu: usize, now: Time, rang: bool, hold: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if rang {
            session.devices[gpu].view.rang();
        }
        let task = match session.devices[gpu].task {
            Some(task) => task,
            None if DeviceView::stirs(session.block(gpu)) => {
                let Some(task) = self.attach(id, gpu, now) else {
                    return;
                };
                task
            }
            None => return,
        };
        let mut events = std::mem::take(&mut self.events);
        if let Some(session) = self.sessions.get_mut(&id) {
            let (block, device) = session.block_and_device(gpu);
            device.view.look(block, task, hold, &mut events);
        }
        for event in events.drain(..) {
            // What came before may have ended the session.
            let session = self.sessions.get(&id);
            if session.is_some_and(Session::is_connected) {
                self.feed_agents(id, gpu, task, now, &event);
            }
        }
        self.events = events;
        // After the grant, for which a program waits.
        if let Some(session) = self.sessions.get(&id) {
            let says = agent_bytes(session, gpu);
            self.gpus[gpu].account.agent_says(session.peer.pid, says);
        }
    }

    /// Hands in what one process says.
    fn hear(
        &mut self,
        id: SessionId,
        gpu: usize,
        task: TaskId,
        now: Time,
        event: &Event,
    ) -> Result<(), EventError> {
        if let Some(members) = self.members(task) {
            members.hear(now, id.1, event)?;
        }
        self.feed_members(gpu, task, now)
    }

    /// As [`Self::feed`], for what an agent says: where it cannot be, that is the agent's fault.
    fn feed_agents(&mut self, id: SessionId, gpu: usize, task: TaskId, now: Time, event: &Event) {
        let registration = id.0;
        let usage = matches!(event, Event::Usage { .. });
        if let Event::Usage { usage, .. } = event
            && let Some(session) = self.sessions.get_mut(&id)
        {
            let (block, device) = session.block_and_device(gpu);
            // A taking that a lowering overtook shows for a moment before it is undone, and a
            // report may be older than the last lowering.
            let over = usage.resident.0 > block.daemon.budget_bytes();
            if over && !device.view.disbelieved(now) {
                return;
            }
        }
        let outcome = match event {
            Event::SwapEnded { outcome, .. } => Some(*outcome),
            _ => None,
        };
        if outcome == Some(SwapOutcome::OutOfMemory) {
            // Somebody has taken memory that is not known of yet.
            self.nvml.hurry(true);
        }
        let turn = matches!(
            event,
            Event::JobRequested { .. } | Event::JobCompleted { .. } | Event::SwapEnded { .. }
        );
        let result = self.hear(id, gpu, task, now, event);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let view = &mut session.devices[gpu].view;
        if let Some((direction, bytes, time)) = view.moved.take() {
            let statistics = self.statistics.entry(registration).or_default();
            statistics.moved(direction, bytes, time);
        }
        let error = match result {
            Ok(()) => {
                if usage {
                    view.believed();
                }
                return;
            }
            // Its fields are not written at once: only what lasts is a lie.
            Err(_) if usage && !view.disbelieved(now) => return,
            Err(error) => error,
        };
        view.believed();
        let pid = session.peer.pid;
        if self.complaints.allows(now) {
            tracing::warn!(task = registration.0, pid, gpu, "senseless report: {error}");
            self.tell(News::Violation {
                task: registration,
                kind: "senseless-report",
                detail: error.to_string(),
            });
        }
        self.statistics.entry(registration).or_default().violations += 1;
        if turn {
            // Both ends count differently now, and a job or an operation may never end. Its Hello
            // sets that right.
            self.connection_ended(id, now);
        }
    }
}
