//! EDF with bounded swap volumes, sans IO: `register(now, …)` or `handle(now, event)`, then
//! `poll_command()` until empty, then `poll_timeout()`.
//!
//! `record`, `tasks` and `state` are what is known, `books`, `order` and `holders` what is kept of it
//! so that a decision looks at no other task. `registry`, `change` and `plan` know the tasks and the swap
//! volumes that hold for them, `room` chooses these, with what they leave to the others, `jobs` and
//! `account` follow a job, `region`, `pipeline` (the test `Pipelined`: here is its protocol) and
//! `best_effort` serve it, `evict`, `swap`, `budget`, `volume` and `wants` move memory, `timer` keeps
//! the bounds, `stray` goes on without those that do not obey, `park` has tasks leave the GPU
//! until they are resumed or because they idle, `invariants` says what must always hold, `waiting` which tasks wait outside the plan.

mod account;
mod best_effort;
mod books;
mod budget;
mod change;
pub mod command;
pub mod config;
pub mod discipline;
mod error;
pub mod event;
mod evict;
mod fair;
mod holders;
mod invariants;
mod job;
mod jobs;
mod order;
mod park;
mod pipeline;
mod plan;
mod recent;
mod record;
mod region;
mod registry;
mod room;
pub mod state;
mod stray;
mod swap;
mod tasks;
mod timer;
mod turns;
mod volume;
mod waiting;
mod wants;

pub use command::{BudgetAnswer, Command, Direction, JobAccount, JobEnd, ViolationKind};
pub use config::{Config, Overrun, Sharing, Undrained};
pub use discipline::{Discipline, Manners, Moment, Rank, Standing};
pub use error::{EventError, Refusal};
pub use event::{BudgetRequestSeq, Event, JobKind, JobSeq, OpenJob, SwapOutcome, SwapSeq, Usage};
pub use fair::Fair;
pub use invariants::InvariantError;
pub use record::{Attachment, Phase};
pub use registry::MAX_TASKS;
pub use state::{GpuStatus, JobStatus, State, TaskStatus, TurnStatus};

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;

use crate::scheduler::record::Task;
use crate::task::{TaskId, TaskSpec};
use crate::units::{Bytes, Time};

/// How many inputs the message of a violated invariant tells.
#[cfg(debug_assertions)]
const RECENT: usize = 32;

/// The scheduler of one GPU.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    /// How best-effort takes turns.
    discipline: Arc<dyn Discipline>,
    state: State,
    commands: VecDeque<Command>,
    /// What came last, for the message of a violated invariant.
    #[cfg(debug_assertions)]
    recent: VecDeque<(Time, Input)>,
}

/// What was handed in.
#[cfg(debug_assertions)]
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "read in its Debug form alone")]
enum Input {
    Register(TaskId, TaskSpec),
    Change(TaskId, TaskSpec),
    Event(Event),
}

impl Scheduler {
    /// A scheduler that knows no task yet.
    pub fn new(config: Config) -> Self {
        let fair = Fair {
            swap_share: config.swap_share,
            longest_wait: config.longest_wait,
            drain: config.drain,
        };
        Self::with_discipline(config, Arc::new(fair))
    }

    /// As [`Self::new`], with turns of best-effort by `discipline`.
    pub fn with_discipline(config: Config, discipline: Arc<dyn Discipline>) -> Self {
        Self {
            state: State::new(&config),
            discipline,
            config,
            commands: VecDeque::new(),
            #[cfg(debug_assertions)]
            recent: VecDeque::with_capacity(RECENT),
        }
    }

    /// Begins anew with `config`, but for its capacity: the one that was told last holds, and what was remembered. False,
    /// and nothing changes, where a task is known or memory is dying.
    pub fn reconfigure(&mut self, config: Config) -> bool {
        let before = &self.state;
        if before.tasks().next().is_some() || before.held > Bytes::ZERO || !self.commands.is_empty()
        {
            return false;
        }
        let config = Config {
            capacity: before.capacity,
            ..config
        };
        let mut anew = Self::new(config);
        anew.state.now = before.now;
        anew.state.remembered = core::mem::take(&mut self.state.remembered);
        *self = anew;
        true
    }

    /// Asks at `now` for the admission of a task under a fresh id. Returns its swap volume x under
    /// the plan, zero for best-effort. What follows for other tasks is commanded as after
    /// [`Self::handle`]; a refusal changes nothing and commands nothing.
    ///
    /// # Panics
    ///
    /// In debug builds, if an invariant is violated.
    pub fn register(&mut self, now: Time, task: TaskId, spec: TaskSpec) -> Result<Bytes, Refusal> {
        #[cfg(debug_assertions)]
        self.note(now, Input::Register(task, spec.clone()));
        self.take_in(now, |scheduler| scheduler.admit(task, spec))
    }

    /// Asks at `now` that a registered task be `spec` from now on, by its name as before. If its class or its
    /// memory is another, it is admitted anew, and what comes before its next job is treated as loading: a job
    /// that waits loses its deadline. Returns as [`Self::register`] does; a refusal changes nothing.
    ///
    /// # Panics
    ///
    /// In debug builds, if an invariant is violated.
    pub fn change(&mut self, now: Time, task: TaskId, spec: &TaskSpec) -> Result<Bytes, Refusal> {
        #[cfg(debug_assertions)]
        self.note(now, Input::Change(task, spec.clone()));
        self.take_in(now, |scheduler| scheduler.make(task, spec))
    }

    /// Takes in one event that happened at `now` and decides what follows from it. Time never
    /// goes back: an earlier `now` counts as the latest seen. An event that cannot have happened
    /// changes nothing.
    ///
    /// # Panics
    ///
    /// In debug builds, if an invariant is violated.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), EventError> {
        #[cfg(debug_assertions)]
        self.note(now, Input::Event(event));
        self.take_in(now, |scheduler| scheduler.apply(event))
    }

    #[cfg(debug_assertions)]
    fn note(&mut self, now: Time, input: Input) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front((now, input));
    }

    /// Applies one input at `now` and, unless it is refused, does what follows from it.
    fn take_in<T, E>(
        &mut self,
        now: Time,
        apply: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.state.now;
        self.state.now = before.max(now);
        let result = apply(self);
        match result {
            Ok(_) => self.advance(),
            Err(_) => self.state.now = before,
        }
        #[cfg(debug_assertions)]
        if let Err(violated) = self.check_invariants() {
            panic!(
                "{violated}\nlatest inputs first: {:#?}\nstate: {:#?}",
                self.recent, self.state
            );
        }
        result
    }

    /// Checks the seven invariants, and the books against the tasks. Allocates nothing unless one
    /// is violated; O(n log n) in the tasks.
    pub fn check_invariants(&mut self) -> Result<(), InvariantError> {
        self.state.settled();
        self.state.check_invariants()
    }

    /// The next command, to be carried out in this order; none when all are taken.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When `Event::Timer` is wanted next; an earlier one does no harm.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        self.next_timeout()
    }

    /// What is known, for status.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A number that changes with the realtime tasks, their timings, their volumes in effect and those
    /// of a plan to come. Jobs, swaps and usage do not change it.
    pub fn plan_revision(&mut self) -> u64 {
        self.state.settled().plan_revision()
    }

    /// Tells when the next job of the task of this name may be eligible at the earliest, as
    /// [`TaskStatus::next_release`] said before a restart. It counts when the name is registered.
    pub fn remember(&mut self, name: String, next_release: Time) {
        let known = self.state.remembered.entry(name).or_default();
        *known = next_release.max(*known);
    }

    fn apply(&mut self, event: Event) -> Result<(), EventError> {
        match event {
            Event::Unregister { task } => self.unregister(task),
            Event::Demote { task } => self.demote(task),
            Event::Bar {
                task,
                until,
                while_loading,
            } => self.bar(task, until, while_loading),
            Event::Park { task } => self.park(task),
            Event::Resume { task } => self.resume(task),
            Event::Stopped { task } => self.stopped(task),
            Event::Attach {
                task,
                usage,
                backing,
                open,
            } => self.attach(task, usage, backing, open),
            Event::Detach { task } => self.detach(task),
            Event::Regrouped {
                task,
                dying,
                usage,
                backing,
            } => self.regrouped(task, dying, usage, backing),
            Event::Released { task } => self.released(task),
            Event::Lost { task } => self.lost(task),
            Event::JobRequested { task, job, kind } => self.job_requested(task, job, kind),
            Event::JobCompleted { task, job } => self.job_completed(task, job),
            Event::SwapProgress { task, op, swapped } => self.swap_progress(task, op, swapped),
            Event::SwapEnded {
                task,
                op,
                swapped,
                outcome,
                ..
            } => self.swap_ended(task, op, swapped, outcome),
            Event::BudgetRequested { task, want, bytes } => {
                self.record_budget_request(task, want, bytes)
            }
            Event::Usage { task, usage } => self.usage(task, usage),
            Event::BudgetSet { task, bytes } => self.budget_set(task, bytes),
            Event::Backing { task, bytes } => self.backing(task, bytes),
            Event::Capacity { bytes } => {
                self.state.capacity = bytes;
                self.state.ceiling = self.state.ceiling.max(self.state.held);
                Ok(())
            }
            Event::HostMemory { short } => {
                self.host_memory(short);
                Ok(())
            }
            Event::HostRoom { task } => self.host_room(task),
            Event::Timer => Ok(()),
        }
    }

    /// Does whatever the rules allow now.
    fn advance(&mut self) {
        self.wake_later();
        self.review_sharing();
        self.check_bounds();
        self.change_plan();
        self.serve_realtime();
        self.serve_capacity();
        self.serve_best_effort();
        self.mark_span();
        let state = &mut self.state;
        state.ceiling = state.capacity.max(state.ceiling.min(state.held));
    }

    /// Room for what one event may command.
    fn reserve_commands(&mut self) {
        let tasks = self.state.tasks.len();
        let room = 4 * tasks + 64;
        self.commands
            .reserve(room.saturating_sub(self.commands.len()));
    }

    fn emit(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    fn violation(&mut self, task: TaskId, kind: ViolationKind, detail: String) {
        self.emit(Command::Violation { task, kind, detail });
    }

    /// A task that is known to exist.
    fn task(&self, id: TaskId) -> &Task {
        &self.state.tasks[id]
    }

    /// A task that is known to exist.
    fn task_mut(&mut self, id: TaskId) -> &mut Task {
        self.state
            .tasks
            .get_mut(id)
            .expect("ids in the queues name known tasks")
    }

    fn known(&self, id: TaskId) -> Result<&Task, EventError> {
        let task = self.state.tasks.get(id);
        task.ok_or(EventError::UnknownTask(id))
    }

    /// The task `id`, if it is attached: any other cannot have sent an event.
    fn attached(&self, id: TaskId) -> Result<&Task, EventError> {
        let task = self.known(id)?;
        match task.attachment {
            Attachment::Attached => Ok(task),
            Attachment::Absent | Attachment::Lost => Err(EventError::NotAttached(id)),
        }
    }
}
