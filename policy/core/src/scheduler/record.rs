//! What is known of one task.

use core::cmp::Reverse;

use crate::scheduler::command::Direction;
use crate::scheduler::discipline::{Rank, Standing};
use crate::scheduler::event::{BudgetRequestSeq, JobSeq, SwapSeq, Usage};
use crate::scheduler::job::{Job, Place};
use crate::scheduler::recent::Recent;
use crate::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing};
use crate::units::{Bytes, Nanos, Time};

/// How long a request for budget waits at most without coming nearer to memory that may still leave, before
/// the program is told that there is none.
const REQUEST_TIMEOUT: Nanos = Nanos(5_000_000_000);

/// The position of a task in the eviction order: the task with the latest next release goes first.
/// Best-effort tasks have none, so they precede all realtime tasks.
pub(crate) type Victim = (Reverse<Time>, Return, TaskId);

/// When a best-effort task has its next turn: the later ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Return {
    /// None before it is resumed: it goes before all others.
    Parked,
    /// Nobody knows. It has had no job since then: the longest idle one goes first.
    Idle(Time),
    /// Its job has this place among those that wait.
    Waits(Reverse<Rank>),
}

/// How a task is treated now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Registered as realtime, treated as best-effort until its plan is in effect and its first
    /// realtime job is asked for.
    Loading,
    /// Realtime: its jobs have deadlines, and the plan guarantees them.
    Ready,
    /// Best-effort: registered so, or demoted.
    BestEffort,
}

/// Whether the agent can be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// There is no process.
    Absent,
    /// There is an agent.
    Attached,
    /// The process lives, its agent is silent.
    Lost,
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

/// The class of work that memory moves for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A realtime job, or a capacity that has dropped: never aborted.
    Realtime,
    /// Best-effort: aborted when a realtime job comes.
    BestEffort,
}

/// An unanswered request for more budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetRequest {
    pub(crate) seq: BudgetRequestSeq,
    /// Bytes resident and swapped together: some may leave the GPU while the request waits.
    pub(crate) total: Bytes,
    pub(crate) since: Time,
    /// Since when nothing has come nearer: no request before it was granted, and no store grew for it.
    pub(crate) stalled_since: Time,
    /// Whether the backing store was asked to grow for it.
    pub(crate) pinning: bool,
}

impl BudgetRequest {
    /// For `total` bytes in all, made at `now`.
    pub(crate) fn new(seq: BudgetRequestSeq, total: Bytes, now: Time) -> Self {
        Self {
            seq,
            total,
            since: now,
            stalled_since: now,
            pinning: false,
        }
    }

    /// The budget in bytes that it takes, with `swapped` bytes in the backing store.
    pub(crate) fn budget(&self, swapped: Bytes) -> Bytes {
        self.total.saturating_sub(swapped)
    }
}

/// All that the scheduler knows of one task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) spec: TaskSpec,
    /// m in whole chunks.
    pub(crate) footprint: Bytes,
    pub(crate) registered: bool,
    pub(crate) attachment: Attachment,
    pub(crate) phase: Phase,
    /// It stays off the GPU until it is resumed.
    pub(crate) parked: bool,
    /// An implicit job completed within C without growing the arena.
    pub(crate) proved: bool,
    /// The last job, if it was implicit and was revoked, and whether it left within C without growing the arena.
    pub(crate) cut: Option<(JobSeq, bool)>,

    pub(crate) usage: Usage,
    /// Resident bytes that a `BudgetSet` told of, but no usage report yet: it is unknown whether they
    /// are in the arena.
    pub(crate) unreported: Bytes,
    /// Bytes that it may hold; a lower budget counts only once the shell has confirmed it.
    pub(crate) budget: Bytes,
    /// The budget last asked for; `budget` unless an answer is outstanding.
    pub(crate) asked: Bytes,
    /// The part of `asked` that was never given: it counts because the task says that it holds so much.
    pub(crate) claimed: Bytes,
    /// `SetBudget`s not yet answered.
    pub(crate) unanswered: u32,
    /// Bytes left on the GPU by processes that are gone.
    pub(crate) dying: Bytes,
    /// The pinned backing store.
    pub(crate) backing: Bytes,
    /// The `SetBackingStore` not yet answered.
    pub(crate) backing_asked: Option<Bytes>,
    /// Whether its agent was asked for a smaller one and kept what it had.
    pub(crate) keeps_backing: bool,
    /// It has given back the store that it did not need, because host memory is short.
    pub(crate) has_shed: bool,
    /// The most bytes that could be pinned, known once the agent pinned less than it was asked for.
    pub(crate) backing_most: Option<Bytes>,
    pub(crate) op: Option<Op>,
    pub(crate) last_op: u32,
    /// Not a victim before this, after an operation that went wrong.
    pub(crate) spared_until: Time,
    /// Its last swap-out moved nothing of what it could have moved.
    pub(crate) moved_nothing: bool,
    pub(crate) want: Option<BudgetRequest>,
    /// It gets nothing as best-effort before this while there are realtime tasks.
    pub(crate) barred_until: Time,
    /// The same while it loads.
    pub(crate) barred_loading_until: Time,
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
    /// When a job of it last left the GPU.
    pub(crate) last_left: Time,
    /// When its agent came, or it was last given memory that it asked for.
    pub(crate) last_given: Time,
    pub(crate) standing: Standing,
    /// Best-effort GPU time, the time that the GPU stood still to give it its turns, and waits for them.
    pub(crate) ran: Recent,
    pub(crate) moved: Recent,
    pub(crate) waited: Recent,

    /// Whether what the books have of it may be out of date.
    pub(crate) touched: bool,
}

impl Task {
    /// Resident and swapped.
    pub(crate) fn holds(&self) -> Bytes {
        self.usage.resident + self.usage.swapped
    }

    /// Bytes that must be in the budget before a job of it runs: its footprint if it is planned,
    /// and everything it holds anywhere.
    pub(crate) fn need(&self) -> Bytes {
        match self.plan {
            Some(_) => self.holds().max(self.footprint),
            None => self.holds(),
        }
    }

    /// What the budget lacks of `need`.
    pub(crate) fn short(&self) -> Bytes {
        self.need().saturating_sub(self.asked)
    }

    /// What its next job may have to bring in whatever the plan says: out by an earlier plan or an
    /// emergency, or taken back under an earlier plan as budget that it did not use.
    pub(crate) fn owes(&self) -> Bytes {
        match self.phase {
            Phase::Ready => self.carried.max(self.short()),
            Phase::Loading | Phase::BestEffort => self.carried,
        }
    }

    /// The most bytes that are in the backing store now or will be after the operation under way.
    pub(crate) fn out(&self) -> Bytes {
        let op = self.op.as_ref();
        let moving = op.map_or(Bytes::ZERO, |op| op.from.max(op.target));
        self.usage.swapped.max(moving)
    }

    /// Resident and in the arena.
    pub(crate) fn arena_resident(&self) -> Bytes {
        self.usage.arena.saturating_sub(self.usage.swapped)
    }

    /// Resident and not in the arena.
    pub(crate) fn fixed(&self) -> Bytes {
        self.usage.resident.saturating_sub(self.arena_resident())
    }

    /// What is known never to leave.
    pub(crate) fn stays(&self) -> Bytes {
        self.fixed().saturating_sub(self.unreported)
    }

    /// What can never leave while its agent is attached: what is known not to be in the arena, and what its
    /// backing store can never take.
    pub(crate) fn unswappable(&self) -> Bytes {
        if self.attachment != Attachment::Attached {
            return Bytes::ZERO;
        }
        let most = self.backing_most.unwrap_or(Bytes::MAX);
        let room = most.saturating_sub(self.stays_out());
        self.stays() + self.arena_resident().saturating_sub(room)
    }

    /// The backing store as it is and will be.
    pub(crate) fn firm_backing(&self) -> Bytes {
        self.backing_asked
            .map_or(self.backing, |asked| asked.min(self.backing))
    }

    /// The budget asked for, without what has left by the operation under way and is in it still.
    pub(crate) fn kept(&self) -> Bytes {
        let left = self
            .op
            .as_ref()
            .map_or(Bytes::ZERO, |op| match op.direction {
                Direction::Out => self.usage.swapped.saturating_sub(op.from + op.released),
                Direction::In => Bytes::ZERO,
            });
        self.asked.saturating_sub(left)
    }

    /// In the backing store once nothing moves: what comes in can leave again.
    fn stays_out(&self) -> Bytes {
        match &self.op {
            Some(op) if op.direction == Direction::In => op.target,
            _ => self.usage.swapped,
        }
    }

    /// Of a budget of `budget`, what could not be made to leave.
    pub(crate) fn unmovable(&self, budget: Bytes) -> Bytes {
        let stray = |job: &Job| job.place == Place::Stray;
        if self.attachment == Attachment::Lost || self.job.as_ref().is_some_and(stray) {
            return budget;
        }
        let room = self.firm_backing().saturating_sub(self.stays_out());
        // What it declares as not swappable may be what it takes first.
        let MemoryProfile {
            footprint,
            swappable,
        } = self.spec.memory;
        let fixed = self.fixed().max(footprint.saturating_sub(swappable));
        budget.saturating_sub(room).max(fixed.min(budget))
    }

    /// As it is once its agent has reported what it took, and its backing store is as large as it can be.
    pub(crate) fn once_reported(&self) -> Self {
        let mut task = self.clone();
        task.usage.arena += core::mem::take(&mut task.unreported);
        task.backing = self.backing_most.unwrap_or(Bytes::MAX);
        task.backing_asked = None;
        task
    }

    /// When its open request is refused if nothing comes nearer; none while its store grows for it.
    pub(crate) fn request_ends(&self) -> Option<Time> {
        let want = self.want?;
        let grows = want.pinning && self.backing_asked.is_some();
        (!grows).then_some(want.stalled_since + REQUEST_TIMEOUT)
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

    /// When its next release is, best-effort never.
    fn release(&self) -> Time {
        match self.phase {
            Phase::Ready => self.next_release,
            Phase::Loading | Phase::BestEffort => Time::MAX,
        }
    }

    /// Its place among the victims.
    pub(crate) fn victim(&self, id: TaskId) -> Victim {
        let rank = self.job.as_ref().and_then(|job| job.rank);
        let returns = match rank {
            _ if self.parked => Return::Parked,
            Some(rank) => Return::Waits(Reverse(rank)),
            None => Return::Idle(self.last_left),
        };
        (Reverse(self.release()), returns, id)
    }

    /// Whether it may be a victim: not one that runs or is in its region, nor while it moves.
    pub(crate) fn evictable(&self) -> bool {
        self.attachment == Attachment::Attached && self.op.is_none() && !self.is_busy()
    }

    /// Whether its job is in its region or on the GPU.
    pub(crate) fn is_busy(&self) -> bool {
        let region = |job: &Job| job.place == Place::Region;
        self.runs() || self.job.as_ref().is_some_and(region)
    }

    /// Whether its jobs and requests for memory wait until it is resumed.
    pub(crate) fn is_held(&self) -> bool {
        self.parked && !self.is_busy()
    }

    /// When it leaves the GPU because it is idle, if nothing happens before; none where it may stay, or is not idle.
    pub(crate) fn idle_out(&self) -> Option<Time> {
        let idles = self.phase == Phase::BestEffort && self.job.is_none() && self.want.is_none();
        let span = self.spec.idle_after.filter(|_| idles && !self.parked)?;
        Some(self.last_left.max(self.last_given) + span)
    }

    /// How much of a ready task may be out; anything of others.
    pub(crate) fn limit(&self, cause: Cause) -> Option<Bytes> {
        if self.phase != Phase::Ready {
            return None;
        }
        let plan = self.plan.unwrap_or_default();
        Some(match cause {
            Cause::Realtime => plan,
            // No best-effort eviction keeps a plan from taking effect.
            Cause::BestEffort => plan.min(self.next.unwrap_or(plan)),
        })
    }

    /// Up to `lacking` bytes of budget that it does not use and may lose.
    pub(crate) fn unused(&self, lacking: Bytes, cause: Cause, chunk: Bytes) -> Bytes {
        let unused = self.asked.saturating_sub(self.usage.resident);
        let Some(limit) = self.limit(cause) else {
            return unused.min(lacking);
        };
        let least = self.need().saturating_sub(limit);
        let may = unused.min(self.asked.saturating_sub(least));
        let may = may.round_down(chunk);
        if may <= lacking {
            may
        } else {
            lacking.round_up(chunk)
        }
    }

    /// How much of it a swap-out could move now, whatever its plan says.
    pub(crate) fn movable(&self) -> Bytes {
        let room = self.firm_backing().saturating_sub(self.usage.swapped);
        self.arena_resident().min(self.usage.resident).min(room)
    }

    /// How much of it a swap-out could move once its backing store is as large as it can be.
    pub(crate) fn may_leave(&self) -> Bytes {
        let most = self.backing_most.unwrap_or(Bytes::MAX);
        let room = most.saturating_sub(self.usage.swapped);
        self.arena_resident().min(self.usage.resident).min(room)
    }

    /// How much of it, with a budget of `asked`, a swap-out may move now, in whole chunks.
    pub(crate) fn can_leave(&self, cause: Cause, asked: Bytes, chunk: Bytes) -> Bytes {
        let mut most = self.movable();
        if let Some(limit) = self.limit(cause) {
            let least = self.need().saturating_sub(limit);
            most = most
                .min(asked.saturating_sub(least))
                .min(limit.saturating_sub(self.usage.swapped));
        }
        most.round_down(chunk)
    }

    /// All that it can be made to give, `unused` of it as budget.
    pub(crate) fn yields(&self, cause: Cause, unused: Bytes, chunk: Bytes) -> Bytes {
        unused + self.can_leave(cause, self.asked.saturating_sub(unused), chunk)
    }

    /// What of it may have to leave to others before their requests time out.
    pub(crate) fn leaves_in_time(&self) -> Bytes {
        let may = match self.limit(Cause::BestEffort) {
            // A lost agent is often the first sign of a death.
            _ if self.attachment != Attachment::Attached => self.budget,
            Some(limit) => limit.saturating_sub(self.out()),
            None => {
                // Chunks on their way in are in the budget already.
                let most = self.backing_most.unwrap_or(Bytes::MAX);
                let room = most.saturating_sub(self.stays_out());
                self.budget.saturating_sub(self.stays()).min(room)
            }
        };
        self.dying + may
    }
}
