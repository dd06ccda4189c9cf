//! All that the scheduler knows of one GPU. Written by the rooms beside it, read by status,
//! tests and `check_invariants`.

mod settled;

pub(crate) use settled::Settled;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::books::Books;
use super::holders::Holders;
use super::order::Order;
use super::record::{Attachment, Phase, Task, Victim};
use super::room::Denied;
use super::tasks::Tasks;
use super::turns::Turns;
use crate::scheduler::command::Direction;
use crate::scheduler::config::{Config, Sharing};
use crate::scheduler::discipline::Rank;
use crate::scheduler::event::{JobSeq, SwapSeq, Usage};
use crate::scheduler::job::Span;
use crate::task::{Class, TaskId, Timing};
use crate::units::{Bytes, Nanos, Ppm, Time};

/// Everything about one GPU.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) now: Time,
    pub(crate) chunk: Bytes,
    /// The mode in effect, not `Auto`.
    pub(crate) sharing: Sharing,
    pub(crate) capacity: Bytes,
    /// Σ budget + Σ dying.
    pub(crate) held: Bytes,
    /// The most that `held` may be: the capacity, or `held` itself where agents took more than their
    /// budgets.
    pub(crate) ceiling: Bytes,
    pub(crate) tasks: Tasks,
    /// Of the tasks as they were when last settled; read through [`Settled`] alone.
    books: Books,
    /// Room to sort victims in when the plan does not fit any more.
    pub(crate) emergency: Vec<Victim>,
    /// Waiting realtime jobs by absolute deadline: the computation queue.
    pub(crate) queue: Order<(Time, TaskId)>,
    /// Jobs that enter a queue at a known time: not yet eligible, or put aside.
    pub(crate) later: Order<(Time, TaskId)>,
    /// Waiting best-effort jobs, the lowest rank first.
    pub(crate) best_effort: Order<(Rank, TaskId)>,
    pub(crate) turns: Turns,
    /// Tasks with an open budget request, first come first.
    pub(crate) wants: VecDeque<TaskId>,
    /// The region that waits to execute.
    pub(crate) region: Option<TaskId>,
    pub(crate) running: Vec<TaskId>,
    pub(crate) holders: Holders,
    /// The tasks that use the copy engines, one for each direction.
    pub(crate) out: Option<TaskId>,
    pub(crate) in_: Option<TaskId>,
    /// Until then a job waits for what is dying before others may pass it.
    pub(crate) released_by: Time,
    /// What the served job waits for, and since when.
    pub(crate) span: Option<(TaskId, Span, Time)>,
    /// Try best-effort again then: nothing moved although something waits.
    pub(crate) retry: Option<Time>,
    /// The tasks that the timing analysis must count until the next quiet instant, each with its x: the
    /// larger of two while the plan changes. Tasks that have left are among them.
    pub(crate) charged: BTreeMap<TaskId, (Timing, Bytes)>,
    /// `charged` holds more than the plan in effect.
    pub(crate) stale: bool,
    /// The last search in vain for a plan with more room outside it.
    pub(crate) denied: Option<Denied>,
    /// The next search for such a plan is not before this.
    pub(crate) search_after: Time,
    /// A plan waits; whether it may take effect before a quiet instant.
    pub(crate) pending: Option<bool>,
    /// Next releases of names that are not registered now.
    pub(crate) remembered: BTreeMap<String, Time>,
}

/// A job as status shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The job's number within its task.
    pub job: JobSeq,
    /// Its absolute deadline; none for best-effort.
    pub deadline: Option<Time>,
    /// When it became eligible: the deadline counts from here.
    pub eligible: Time,
    /// When it was granted; none while it waits.
    pub granted: Option<Time>,
}

/// A task as status shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// The task's id on this GPU.
    pub task: TaskId,
    /// The task's name as registered.
    pub name: String,
    /// The class that it registered as.
    pub class: Class,
    /// How it is treated now.
    pub phase: Phase,
    /// Whether it is kept off the GPU until it is resumed.
    pub parked: bool,
    /// What of a parked task is still to be swapped out, in bytes; zero for any other.
    pub leaving: Bytes,
    /// Whether its agent can be talked to.
    pub attachment: Attachment,
    /// Where its bytes are.
    pub usage: Usage,
    /// Bytes that it may hold on the GPU.
    pub budget: Bytes,
    /// Bytes left on the GPU by a process that is gone.
    pub dying: Bytes,
    /// x in effect; none for best-effort.
    pub volume: Option<Bytes>,
    /// x under a plan that waits for backing stores or a quiet instant.
    pub next_volume: Option<Bytes>,
    /// Bytes pinned as its backing store.
    pub backing: Bytes,
    /// The next realtime job is not eligible before this; to be kept over a daemon's restart
    /// (`Scheduler::remember`).
    pub next_release: Time,
    /// The open job, if there is one.
    pub job: Option<JobStatus>,
    /// Until when it gets nothing as best-effort, because its owner's processes do not leave the GPU when
    /// they must.
    pub barred_until: Option<Time>,
    /// The swap operation under way: direction and what will be in the backing store.
    pub op: Option<(SwapSeq, Direction, Bytes)>,
}

/// How a task has its turns as best-effort, over the last one to two minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStatus {
    /// The part of the time in which it had the GPU, that of a job that still runs included.
    pub gpu_share: Ppm,
    /// The part of the time in which the GPU stood still until its memory was there for a turn.
    pub swap_share: Ppm,
    /// The longest that one of its jobs has waited for its turn, one that still waits included.
    pub longest_wait: Nanos,
}

/// A GPU as status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuStatus {
    /// The capacity mᴰ in bytes.
    pub capacity: Bytes,
    /// Bytes in use: all budgets and what is dying.
    pub used: Bytes,
    /// The tasks that run a job now.
    pub running: Vec<TaskId>,
    /// The region that waits to execute.
    pub region: Option<TaskId>,
    /// Waiting realtime tasks, the head first.
    pub queue: Vec<TaskId>,
    /// Waiting best-effort tasks, the next first.
    pub best_effort: Vec<TaskId>,
}

impl State {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            now: Time::ZERO,
            chunk: config.chunk,
            sharing: match config.sharing {
                Sharing::Auto => Sharing::Shared,
                sharing => sharing,
            },
            capacity: config.capacity,
            held: Bytes::ZERO,
            ceiling: config.capacity,
            tasks: Tasks::default(),
            books: Books::new(),
            emergency: Vec::new(),
            queue: Order::new(),
            later: Order::new(),
            best_effort: Order::new(),
            turns: Turns::new(),
            wants: VecDeque::new(),
            region: None,
            running: Vec::new(),
            holders: Holders::new(),
            out: None,
            in_: None,
            released_by: Time::ZERO,
            span: None,
            retry: None,
            charged: BTreeMap::new(),
            stale: false,
            denied: None,
            search_after: Time::ZERO,
            pending: None,
            remembered: BTreeMap::new(),
        }
    }

    /// Every task, by id.
    pub fn tasks(&self) -> impl Iterator<Item = TaskStatus> + '_ {
        self.tasks.ids().filter_map(|id| self.task(id))
    }

    /// The task `id`; none if it is not known.
    pub fn task(&self, id: TaskId) -> Option<TaskStatus> {
        let task = self.tasks.get(id)?;
        Some(TaskStatus {
            task: id,
            name: task.spec.name.clone(),
            class: task.spec.class,
            phase: task.phase,
            parked: task.parked,
            leaving: if task.parked {
                task.may_leave().round_down(self.chunk)
            } else {
                Bytes::ZERO
            },
            attachment: task.attachment,
            usage: task.usage,
            budget: task.budget,
            dying: task.dying,
            volume: task.plan,
            next_volume: task.next.filter(|_| self.pending.is_some()),
            backing: task.backing,
            next_release: task.next_release,
            job: task.job.as_ref().map(|job| JobStatus {
                job: job.seq,
                deadline: job.deadline,
                eligible: job.eligible,
                granted: job.granted,
            }),
            barred_until: self.barred_until(id),
            op: task.op.as_ref().map(|op| (op.seq, op.direction, op.target)),
        })
    }

    /// How a task has its turns, as of `now`; none where it is treated as realtime.
    pub fn turns(&self, id: TaskId, now: Time) -> Option<TurnStatus> {
        let task = self.tasks.get(id)?;
        if task.phase == Phase::Ready {
            return None;
        }
        let (mut ran, mut waited) = (task.ran, task.waited);
        if let Some(job) = task.job.as_ref().filter(|job| job.deadline.is_none()) {
            match job.granted {
                Some(granted) => ran.add(now, now - granted),
                None if task.parked => {}
                None => waited.note(now, now - job.requested),
            }
        }
        Some(TurnStatus {
            gpu_share: ran.share(now),
            swap_share: task.moved.share(now),
            longest_wait: waited.longest(now),
        })
    }

    /// Until when a task gets nothing as best-effort; none where it does. A task that loads is barred only where
    /// the bar says so, and beside a ready one: before that nothing is promised, and programs that load cannot be
    /// drained at once.
    pub fn barred_until(&self, id: TaskId) -> Option<Time> {
        let task = self.tasks.get(id)?;
        let loads = task.phase == Phase::Loading;
        let until = if loads {
            task.barred_loading_until
        } else {
            task.barred_until
        };
        let is_barred = until > self.now && task.phase != Phase::Ready;
        let counts = |other: &Task| other.phase == Phase::Ready || (other.plan.is_some() && !loads);
        let beside_realtime = || self.tasks.values().any(counts);
        (is_barred && beside_realtime()).then_some(until)
    }

    /// The task that the swap operation of `id` makes room for or brings in, if one is under way for a
    /// job.
    pub fn beneficiary(&self, id: TaskId) -> Option<TaskId> {
        self.tasks.get(id)?.op.as_ref()?.beneficiary
    }

    /// The GPU itself.
    pub fn gpu(&self) -> GpuStatus {
        GpuStatus {
            capacity: self.capacity,
            used: self.held,
            running: self.running.clone(),
            region: self.region,
            queue: self.queue.iter().map(|(_, id)| id).collect(),
            best_effort: self.best_effort.iter().map(|(_, id)| id).collect(),
        }
    }

    /// The tasks with a budget request that may be answered, first come first.
    pub(crate) fn open_wants(&self) -> impl Iterator<Item = TaskId> + '_ {
        let wants = self.wants.iter().copied();
        wants.filter(|id| !self.tasks[*id].is_held())
    }

    /// What may still be handed out.
    pub(crate) fn free(&self) -> Bytes {
        self.capacity.saturating_sub(self.held)
    }

    /// Whether a realtime job runs.
    pub(crate) fn realtime_runs(&self) -> bool {
        self.running.iter().any(|id| self.tasks[*id].realtime_job())
    }

    /// Whether a realtime job waits, is in a region or runs.
    pub(crate) fn realtime_active(&self) -> bool {
        !self.queue.is_empty() || self.region.is_some() || self.realtime_runs()
    }

    /// Takes in a task, with room for all that it will ever queue for.
    pub(crate) fn insert(&mut self, id: TaskId, task: Task) {
        let tasks = self.tasks.len() + 1;
        self.tasks.reserve(tasks);
        self.books.reserve(tasks);
        self.queue.reserve(tasks);
        self.later.reserve(tasks);
        let room = |len: usize| tasks.saturating_sub(len);
        self.best_effort.reserve(tasks);
        self.turns.ages.reserve(tasks);
        self.turns.passed_over.reserve(tasks);
        self.wants.reserve(room(self.wants.len()));
        self.running.reserve(room(self.running.len()));
        self.emergency.reserve(room(self.emergency.len()));
        if let Some(place) = self.tasks.insert(id, task) {
            self.books.insert(place);
        }
    }

    /// Forgets a task that is in no queue.
    pub(crate) fn forget(&mut self, id: TaskId) {
        if let Some(place) = self.tasks.remove(id) {
            self.books.remove(place, id);
        }
    }
}
