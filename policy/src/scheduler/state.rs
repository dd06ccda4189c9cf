//! All that the scheduler knows of one GPU. Written by the rooms beside it, read by status,
//! tests and `check_invariants`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::scheduler::command::Direction;
use crate::scheduler::config::{Config, Sharing};
use crate::scheduler::event::{JobSeq, SwapSeq, Usage, WantSeq};
use crate::scheduler::job::{Job, Place, Span};
use crate::task::{Class, TaskId, TaskSpec, Timing};
use crate::units::{Bytes, Nanos, Time};

/// How a task is treated now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Registered as realtime, treated as best-effort until its plan is in effect and its first
    /// realtime job is asked for.
    Loading,
    /// Realtime.
    Ready,
    /// Best-effort.
    BestEffort,
}

/// Whether the agent can be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// There is no process.
    Absent,
    /// There is an agent.
    Attached,
    /// The process lives, its agent is silent.
    Lost,
}

/// What became of a task's realtime jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that completed, best-effort ones included.
    pub jobs: u64,
    /// Of them, realtime jobs that ended after their deadline.
    pub misses: u64,
    /// The worst of these.
    pub worst_lateness: Nanos,
    /// Σ (completion − eligible).
    pub response_sum: Nanos,
    /// The longest of these.
    pub response_max: Nanos,
}

/// A swap operation under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) seq: SwapSeq,
    pub(crate) direction: Direction,
    /// In the backing store when it began, and when it will be done.
    pub(crate) from: Bytes,
    pub(crate) target: Bytes,
    pub(crate) cause: Cause,
    /// The task that it is done for, if for one.
    pub(crate) beneficiary: Option<TaskId>,
    pub(crate) started: Time,
    /// Past this it is a violation.
    pub(crate) due: Time,
    pub(crate) overdue: bool,
    pub(crate) aborting: bool,
    /// It belongs to a pipelined region: budgets follow chunk by chunk.
    pub(crate) pipelined: bool,
    /// Of what has left, how much the budget was lowered by already.
    pub(crate) released: Bytes,
}

/// On whose behalf memory moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A realtime job, or a capacity that has dropped: never aborted.
    Realtime,
    /// Best-effort: aborted when a realtime job comes.
    BestEffort,
}

/// An unanswered request for more budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenWant {
    pub(crate) seq: WantSeq,
    /// Resident and swapped together: some of it may leave while the want waits.
    pub(crate) total: Bytes,
    pub(crate) since: Time,
    /// The backing store was asked to grow for it.
    pub(crate) pinning: bool,
}

impl OpenWant {
    /// The budget that it takes, with `swapped` in the backing store.
    pub(crate) fn budget(&self, swapped: Bytes) -> Bytes {
        self.total.saturating_sub(swapped)
    }
}

/// One task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) spec: TaskSpec,
    pub(crate) registered: bool,
    pub(crate) session: Session,
    pub(crate) phase: Phase,
    /// An implicit job completed within C without growing the arena.
    pub(crate) proved: bool,

    pub(crate) usage: Usage,
    /// What it may hold, counted until the shell has confirmed less.
    pub(crate) budget: Bytes,
    /// The budget last asked for; `budget` unless an answer is outstanding.
    pub(crate) asked: Bytes,
    /// `SetBudget`s not yet answered.
    pub(crate) unanswered: u32,
    /// Left on the GPU by processes that are gone.
    pub(crate) dying: Bytes,
    /// The pinned backing store.
    pub(crate) backing: Bytes,
    /// The `SetVolume` not yet answered.
    pub(crate) backing_asked: Option<Bytes>,
    /// Its agent was asked for a smaller one and kept what it had.
    pub(crate) keeps_backing: bool,
    /// The most that could be pinned, once less came than was asked for.
    pub(crate) backing_most: Option<Bytes>,
    pub(crate) op: Option<Op>,
    pub(crate) last_op: u32,
    /// Not a victim before this, after an operation that went wrong.
    pub(crate) spared_until: Time,
    pub(crate) want: Option<OpenWant>,
    /// Until then, or its agent's next report, its unused budget is not taken for best-effort.
    pub(crate) fresh_until: Time,

    /// x in effect.
    pub(crate) plan: Option<Bytes>,
    /// x under the plan to come.
    pub(crate) next: Option<Bytes>,
    /// Out beyond x by an earlier plan or an emergency, and so allowed until swapped in.
    pub(crate) carried: Bytes,

    pub(crate) job: Option<Job>,
    pub(crate) last_job: Option<JobSeq>,
    /// Last eligible time + T: the next job is not eligible before it.
    pub(crate) next_release: Time,
    pub(crate) last_granted: Time,
    pub(crate) counts: Counts,
}

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
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    /// Waiting realtime jobs by absolute deadline: the computation queue.
    pub(crate) queue: BTreeSet<(Time, TaskId)>,
    /// Jobs that enter a queue at a known time: not yet eligible, or put aside.
    pub(crate) later: BTreeSet<(Time, TaskId)>,
    /// Waiting best-effort jobs, first come first.
    pub(crate) best_effort: VecDeque<TaskId>,
    /// Tasks with an open want, first come first.
    pub(crate) wants: VecDeque<TaskId>,
    /// The region that waits to execute.
    pub(crate) region: Option<TaskId>,
    pub(crate) running: Vec<TaskId>,
    /// Who uses the copy engines.
    pub(crate) out: Option<TaskId>,
    pub(crate) in_: Option<TaskId>,
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

impl Task {
    /// Bytes that must be in the budget before a job of it runs: its footprint if it is planned,
    /// and everything it holds anywhere.
    pub(crate) fn need(&self, chunk: Bytes) -> Bytes {
        let holds = self.usage.resident + self.usage.swapped;
        match self.plan {
            Some(_) => holds.max(self.spec.memory.footprint.round_up(chunk)),
            None => holds,
        }
    }

    /// What the budget lacks of `need`.
    pub(crate) fn short(&self, chunk: Bytes) -> Bytes {
        self.need(chunk).saturating_sub(self.asked)
    }

    /// The most that is or will be out, as things stand.
    pub(crate) fn out(&self) -> Bytes {
        let op = self.op.as_ref();
        let moving = op.map_or(Bytes::ZERO, |op| op.from.max(op.target));
        self.usage.swapped.max(moving)
    }

    /// Resident and in the arena.
    pub(crate) fn arena_resident(&self) -> Bytes {
        self.usage.arena.saturating_sub(self.usage.swapped)
    }

    /// The backing store as it is and will be.
    pub(crate) fn firm_backing(&self) -> Bytes {
        self.backing_asked
            .map_or(self.backing, |asked| asked.min(self.backing))
    }

    /// Of a budget of `budget`, what could not be made to leave.
    pub(crate) fn unmovable(&self, budget: Bytes) -> Bytes {
        let stray = |job: &Job| job.place == Place::Stray;
        if self.session == Session::Lost || self.job.as_ref().is_some_and(stray) {
            return budget;
        }
        let pinned = self.usage.resident.saturating_sub(self.arena_resident());
        // What comes in can leave again: its slots are free by then.
        let swapped = match &self.op {
            Some(op) if op.direction == Direction::In => op.target,
            _ => self.usage.swapped,
        };
        let room = self.firm_backing().saturating_sub(swapped);
        budget.saturating_sub(room).max(pinned.min(budget))
    }

    /// The timing of a task that registered as realtime.
    pub(crate) fn timing(&self) -> Option<Timing> {
        match self.spec.class {
            Class::Realtime(timing) => Some(timing),
            Class::BestEffort => None,
        }
    }

    /// Whether a job of it is on the GPU.
    pub(crate) fn runs(&self) -> bool {
        self.job
            .as_ref()
            .is_some_and(|job| matches!(job.place, Place::Running | Place::Stray))
    }

    /// Whether its open job is realtime.
    pub(crate) fn realtime_job(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.deadline.is_some())
    }
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
            tasks: BTreeMap::new(),
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            best_effort: VecDeque::new(),
            wants: VecDeque::new(),
            region: None,
            running: Vec::new(),
            out: None,
            in_: None,
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
        self.tasks.keys().filter_map(|&id| self.task(id))
    }

    /// One task.
    pub fn task(&self, id: TaskId) -> Option<TaskStatus> {
        let task = self.tasks.get(&id)?;
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
        self.tasks.get(&id)?.op.as_ref()?.beneficiary
    }

    /// The GPU itself.
    pub fn gpu(&self) -> GpuStatus {
        GpuStatus {
            capacity: self.capacity,
            used: self.held,
            running: self.running.clone(),
            region: self.region,
            queue: self.queue.iter().map(|(_, id)| *id).collect(),
            best_effort: self.best_effort.iter().copied().collect(),
        }
    }

    /// What may still be handed out.
    pub(crate) fn free(&self) -> Bytes {
        self.capacity.saturating_sub(self.held)
    }

    /// Whether a realtime job runs.
    pub(crate) fn realtime_runs(&self) -> bool {
        self.running.iter().any(|id| self.tasks[id].realtime_job())
    }

    /// Whether a realtime job waits, is in a region or runs.
    pub(crate) fn realtime_active(&self) -> bool {
        !self.queue.is_empty() || self.region.is_some() || self.realtime_runs()
    }

    /// No realtime job eligible, no region open, no swap in flight.
    pub(crate) fn quiet(&self) -> bool {
        let aside = |(_, id): &(Time, TaskId)| {
            let job = self.tasks[id].job.as_ref();
            job.is_some_and(|job| job.place == Place::Aside && job.deadline.is_some())
        };
        !self.realtime_active()
            && self.out.is_none()
            && self.in_.is_none()
            && !self.later.iter().any(aside)
    }

    /// The most that the plan needs at once, `id` counted with a need of at least `need`: the
    /// left side of (1c).
    pub(crate) fn planned(&self, id: Option<TaskId>, need: Bytes, next: bool) -> Bytes {
        let (mut sum, mut volumes, mut most) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        for (other, task) in &self.tasks {
            let Some(volume) = (if next { task.next } else { task.plan }) else {
                continue;
            };
            let footprint = task.spec.memory.footprint.round_up(self.chunk);
            let holds = task.usage.resident + task.usage.swapped;
            let needs = if Some(*other) == id {
                need
            } else {
                Bytes::ZERO
            };
            sum += footprint.max(holds).max(needs);
            volumes += volume;
            most = most.max(volume);
        }
        sum.saturating_sub(volumes - most)
    }

    /// What of best-effort cannot leave, `id` counted with a budget of `budget`.
    pub(crate) fn unmovable(&self, id: Option<TaskId>, budget: Bytes, next: bool) -> Bytes {
        self.tasks
            .iter()
            .filter(|(_, task)| if next { task.next } else { task.plan }.is_none())
            .map(|(other, task)| {
                let budget = if Some(*other) == id {
                    budget
                } else {
                    task.asked
                };
                task.unmovable(budget)
            })
            .sum()
    }
}
