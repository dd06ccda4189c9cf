//! All that the scheduler knows of one GPU. Written by the rooms beside it, read by status,
//! tests and `check_invariants`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::books::{Books, Share, Sums, Victim};
use super::holders::Holders;
use super::order::Order;
use super::record::{Counts, Phase, Session, Task};
use super::tasks::Tasks;
use crate::scheduler::command::Direction;
use crate::scheduler::config::{Config, Sharing};
use crate::scheduler::event::{JobSeq, SwapSeq, Usage};
use crate::scheduler::job::Span;
use crate::task::{Class, TaskId, Timing};
use crate::units::{Bytes, Time};

/// Everything about one GPU.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) now: Time,
    pub(crate) chunk: Bytes,
    pub(crate) sharing: Sharing,
    pub(crate) capacity: Bytes,
    /// Σ budget + Σ dying.
    pub(crate) held: Bytes,
    /// What `held` may be: the capacity, or what it was when truth overtook it.
    pub(crate) ceiling: Bytes,
    pub(crate) tasks: Tasks,
    pub(crate) books: Books,
    /// Room to sort victims in when the plan does not fit any more.
    pub(crate) emergency: Vec<Victim>,
    /// Waiting realtime jobs by absolute deadline: the computation queue.
    pub(crate) queue: Order<(Time, TaskId)>,
    /// Jobs that enter a queue at a known time: not yet eligible, or put aside.
    pub(crate) later: Order<(Time, TaskId)>,
    /// Waiting best-effort jobs, first come first.
    pub(crate) best_effort: VecDeque<TaskId>,
    /// Tasks with an open want, first come first.
    pub(crate) wants: VecDeque<TaskId>,
    /// The region that waits to execute.
    pub(crate) region: Option<TaskId>,
    pub(crate) running: Vec<TaskId>,
    pub(crate) holders: Holders,
    /// Who uses the copy engines.
    pub(crate) out: Option<TaskId>,
    pub(crate) in_: Option<TaskId>,
    /// Until then a job waits for what is dying before others may pass it.
    pub(crate) released_by: Time,
    /// What the served job waits for, and since when.
    pub(crate) span: Option<(TaskId, Span, Time)>,
    /// Try best-effort again then: nothing moved although something waits.
    pub(crate) retry: Option<Time>,
    /// Whom the timing analysis must count until the next quiet instant: x in effect, the larger
    /// of two during a change, and tasks that have left.
    pub(crate) charged: BTreeMap<TaskId, (Timing, Bytes)>,
    /// `charged` holds more than the plan in effect.
    pub(crate) stale: bool,
    /// A plan waits; whether it may take effect before a quiet instant.
    pub(crate) pending: Option<bool>,
    /// Next releases of names that are not registered now.
    pub(crate) remembered: BTreeMap<String, Time>,
}

/// A job as status shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Its number.
    pub job: JobSeq,
    /// Its absolute deadline; none for best-effort.
    pub deadline: Option<Time>,
    /// From when it counts.
    pub eligible: Time,
    /// When it was granted.
    pub granted: Option<Time>,
}

/// A task as status shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// Which.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// What it registered as.
    pub class: Class,
    /// How it is treated now.
    pub phase: Phase,
    /// Whether its agent can be talked to.
    pub session: Session,
    /// Where its bytes are.
    pub usage: Usage,
    /// What it may hold.
    pub budget: Bytes,
    /// Left on the GPU by a process that is gone.
    pub dying: Bytes,
    /// x in effect; none for best-effort.
    pub volume: Option<Bytes>,
    /// x under a plan that waits for backing stores or a quiet instant.
    pub next_volume: Option<Bytes>,
    /// The pinned backing store.
    pub backing: Bytes,
    /// The next realtime job is not eligible before this; to be kept over a daemon's restart
    /// (`Scheduler::remember`).
    pub next_release: Time,
    /// Its jobs.
    pub counts: Counts,
    /// The open one.
    pub job: Option<JobStatus>,
    /// The swap operation under way: direction and what will be in the backing store.
    pub op: Option<(SwapSeq, Direction, Bytes)>,
}

/// A GPU as status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuStatus {
    /// mᴰ.
    pub capacity: Bytes,
    /// Σ budget and what is dying.
    pub used: Bytes,
    /// Who runs.
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
            sharing: config.sharing,
            capacity: config.capacity,
            held: Bytes::ZERO,
            ceiling: config.capacity,
            tasks: Tasks::default(),
            books: Books::new(),
            emergency: Vec::new(),
            queue: Order::new(),
            later: Order::new(),
            best_effort: VecDeque::new(),
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
            pending: None,
            remembered: BTreeMap::new(),
        }
    }

    /// Every task, by id.
    pub fn tasks(&self) -> impl Iterator<Item = TaskStatus> + '_ {
        self.tasks.ids().filter_map(|id| self.task(id))
    }

    /// One task.
    pub fn task(&self, id: TaskId) -> Option<TaskStatus> {
        let task = self.tasks.get(id)?;
        Some(TaskStatus {
            task: id,
            name: task.spec.name.clone(),
            class: task.spec.class,
            phase: task.phase,
            session: task.session,
            usage: task.usage,
            budget: task.budget,
            dying: task.dying,
            volume: task.plan,
            next_volume: task.next.filter(|_| self.pending.is_some()),
            backing: task.backing,
            next_release: task.next_release,
            counts: task.counts,
            job: task.job.as_ref().map(|job| JobStatus {
                job: job.seq,
                deadline: job.deadline,
                eligible: job.eligible,
                granted: job.granted,
            }),
            op: task.op.as_ref().map(|op| (op.seq, op.direction, op.target)),
        })
    }

    /// The task for whose job the swap operation of `id` is done, if one is under way for a job.
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
            best_effort: self.best_effort.iter().copied().collect(),
        }
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

    /// No realtime job eligible, no region open, no swap in flight.
    pub(crate) fn quiet(&self) -> bool {
        let moves = self.out.is_some() || self.in_.is_some();
        !self.realtime_active() && !moves && self.sums().aside == 0
    }

    /// Whether best-effort has to leave the GPU for realtime jobs. In `Shared` mode not while all
    /// that ready tasks lack is free: then nothing is evicted, and nobody who could give memory
    /// needs to drain in the middle of a busy period.
    pub(crate) fn clears_best_effort(&self) -> bool {
        self.realtime_active()
            && (self.sharing == Sharing::Exclusive || self.sums().lacked > self.free())
    }

    /// Whether what is dying may still be released in time for who waits for memory.
    pub(crate) fn awaits_release(&self) -> bool {
        self.now < self.released_by && self.sums().dying > Bytes::ZERO
    }

    /// The sums over all tasks, which must be up to date.
    pub(crate) fn sums(&self) -> &Sums {
        debug_assert!(self.tasks.untouched(), "settle the books first");
        &self.books.sums
    }

    /// Brings the books up to date.
    pub(crate) fn settle(&mut self) {
        let mut volumes = false;
        while let Some((id, task)) = self.tasks.next_touched() {
            let share = Share::of(id, task, self.chunk);
            let former = core::mem::replace(&mut task.share, share);
            volumes |= self.books.replace(id, &former, &share);
        }
        if volumes {
            self.books.review_volumes(&self.tasks);
        }
    }

    /// Takes in a task, with room for all that it will ever queue for.
    pub(crate) fn insert(&mut self, id: TaskId, task: Task) {
        let tasks = self.tasks.len() + 1;
        self.tasks.reserve(tasks);
        self.books.reserve(tasks);
        self.queue.reserve(tasks);
        self.later.reserve(tasks);
        let room = |len: usize| tasks.saturating_sub(len);
        self.best_effort.reserve(room(self.best_effort.len()));
        self.wants.reserve(room(self.wants.len()));
        self.running.reserve(room(self.running.len()));
        self.emergency.reserve(room(self.emergency.len()));
        self.tasks.insert(id, task);
    }

    /// Forgets a task that is in no queue.
    pub(crate) fn forget(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.remove(id)
            && self.books.replace(id, &task.share, &Share::default())
        {
            self.books.review_volumes(&self.tasks);
        }
    }

    /// The most that the plan needs at once, `id` counted with a need of at least `need`: the
    /// left side of (1c).
    pub(crate) fn planned(&self, id: Option<TaskId>, need: Bytes, next: bool) -> Bytes {
        let plan = usize::from(next);
        let (sums, most) = (self.sums(), self.books.most[plan]);
        let more = id.map_or(Bytes::ZERO, |id| {
            let task = &self.tasks[id];
            let planned = if next { task.next } else { task.plan };
            let more = need.saturating_sub(task.share.sums.needs[plan]);
            planned.map_or(Bytes::ZERO, |_| more)
        });
        (sums.needs[plan] + more).saturating_sub(sums.volumes[plan] - most)
    }

    /// What of best-effort cannot leave, `id` counted with a budget of `budget`.
    pub(crate) fn unmovable(&self, id: Option<TaskId>, budget: Bytes, next: bool) -> Bytes {
        let plan = usize::from(next);
        let sum = self.sums().unmovable[plan];
        let Some(task) = id.map(|id| &self.tasks[id]) else {
            return sum;
        };
        let planned = if next { task.next } else { task.plan };
        let now = planned.map_or(task.unmovable(budget), |_| Bytes::ZERO);
        sum.saturating_sub(task.share.sums.unmovable[plan]) + now
    }
}
