//! Turns of best-effort: which jobs wait, the account of each task's GPU time, and what a change of turns
//! costs.

use super::best_effort::LOOK;
use super::discipline::{Moment, Rank, Standing};
use super::fair::virtual_time;
use super::order::Order;
use super::record::Attachment;
use super::{Scheduler, State};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// Pauses between two jobs are counted up to this: longer ones are idleness.
const IDLE: Nanos = Nanos(1_000_000_000);
/// What a change takes is learnt within these, in thousandths of what the cost model says: it may be a guess,
/// or have a margin.
const LEARNT: [u64; 2] = [1_000, 100_000];

/// How many times as long as changes took until now one is believed to have taken at most.
const SURPRISE: u64 = 4;

/// A change of turns that moves memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The task that has its turn next.
    pub(crate) to: TaskId,
    /// Since when nobody ran because of it, and the GPU time of best-effort until then.
    still_since: Option<(Time, Nanos)>,
    /// What it takes by the cost model.
    modelled: Nanos,
}

/// The task that has the turn, those that wait for it, and what is known of changes.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// Waiting best-effort jobs in the order of their requests, without those in `passed_over`.
    pub(crate) ages: Order<(Time, TaskId)>,
    /// Waiting jobs for which nothing could be done. Until then they hold nobody back.
    pub(crate) passed_over: Order<(Time, TaskId)>,
    /// What it takes to give each of them its turn, by the cost model, all that they hold moved.
    rounds: Nanos,
    /// The least virtual time of those that waited or ran when one last did.
    floor: Nanos,
    /// The task that was granted the GPU last.
    pub(crate) holder: Option<TaskId>,
    /// Since when the present turn lasts.
    since: Time,
    /// The GPU time of best-effort since memory last moved for a turn, and the time that the GPU was kept for
    /// jobs to come.
    settled: Nanos,
    pub(crate) change: Option<Change>,
    /// The task that memory comes in for.
    pub(crate) next: Option<TaskId>,
    /// What the latest changes took, and what they take by the cost model: each counts three quarters of the
    /// one after it.
    took: Nanos,
    modelled: Nanos,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            ages: Order::new(),
            passed_over: Order::new(),
            rounds: Nanos::ZERO,
            floor: Nanos::ZERO,
            holder: None,
            since: Time::ZERO,
            settled: Nanos::ZERO,
            change: None,
            next: None,
            took: Nanos::ZERO,
            modelled: Nanos::ZERO,
        }
    }

    /// Takes the waiting `job` of `id` out of its order.
    fn remove(&mut self, id: TaskId, job: &Job) {
        if let Some(until) = job.passed_until {
            self.passed_over.remove((until, id));
        } else {
            self.ages.remove((job.requested, id));
            self.rounds = self.rounds.saturating_sub(job.price);
        }
    }

    /// How long a change takes that takes `modelled` by the cost model, as far as changes were seen.
    fn as_learnt(&self, modelled: Nanos) -> Nanos {
        if self.modelled == Nanos::ZERO {
            return modelled;
        }
        let seen = self.took.0.saturating_mul(1_000) / self.modelled.0;
        let thousandths = seen.clamp(LEARNT[0], LEARNT[1]);
        Nanos(modelled.0.saturating_mul(thousandths) / 1_000)
    }

    /// A change that takes `modelled` by the cost model took `took`. What moved for another program meanwhile
    /// makes some of them far longer: one that surprises is believed in part.
    fn learn(&mut self, modelled: Nanos, took: Nanos) {
        let known = self.as_learnt(modelled);
        let took = took.min(Nanos(known.0.saturating_mul(SURPRISE)));
        let kept = |sum: Nanos| Nanos(sum.0 / 4 * 3);
        self.took = kept(self.took) + took;
        self.modelled = kept(self.modelled) + modelled;
    }
}

impl State {
    /// The virtual time of a task, what it runs now included.
    pub(super) fn virtual_time(&self, id: TaskId) -> Nanos {
        let task = &self.tasks[id];
        let granted = task.job.as_ref().and_then(|job| job.granted);
        let runs = granted.map_or(Nanos::ZERO, |granted| self.now - granted);
        task.standing.virtual_time + virtual_time(runs, task.standing.weight)
    }

    /// The least virtual time of those that compute, one that has just `ended` included, and those not that
    /// wait to be served at once.
    fn floor(&self, ended: Option<Nanos>) -> Nanos {
        let at_once = Rank {
            level: Rank::AT_ONCE,
            place: u64::MAX,
        };
        let waits = self.best_effort.after((at_once, TaskId(u32::MAX)));
        let waits = waits.map(|(_, id)| self.tasks[id].standing.virtual_time);
        let runs = self
            .running
            .iter()
            .filter(|id| !self.tasks[**id].realtime_job());
        let runs = runs.map(|id| self.virtual_time(*id)).min();
        // Between two jobs the holder does neither.
        let holder = self.turns.holder.and_then(|id| self.tasks.get(id));
        let paused = holder.filter(|task| task.job.is_none() && self.now - task.last_left < IDLE);
        let paused = paused.map(|task| task.standing.virtual_time);
        let rest = runs.into_iter().chain(paused).chain(ended);
        let least = waits.into_iter().chain(rest).min();
        self.turns.floor.max(least.unwrap_or_default())
    }
}

impl Scheduler {
    /// Puts the job of `id` among those that wait for a turn.
    pub(super) fn enqueue(&mut self, id: TaskId) {
        let floor = self.state.floor(None);
        self.state.turns.floor = floor;
        let moment = self.moment(id, id);
        let price = self.price(id);
        let task = self.task(id);
        let Some(job) = &task.job else { return };
        let mut standing = task.standing;
        let (requested, place) = (job.requested, job.rank);
        if place.is_none() {
            standing.idle = match task.last_left {
                Time::ZERO => Nanos::MAX,
                left => requested - left,
            };
            if standing.idle > IDLE {
                standing.cuts = 0;
            } else {
                let before = standing.pause.unwrap_or(standing.idle);
                standing.pause = Some(Nanos((3 * before.0 + standing.idle.0) / 4));
            }
            standing.requested = requested;
            let kept = self.was_kept_for(id);
            standing.kept = if kept { standing.idle } else { Nanos::ZERO };
            self.state.turns.settled += standing.kept;
        }
        let rank = place.unwrap_or_else(|| self.discipline.rank(&mut standing, floor, &moment));
        standing.rank = rank;
        let task = self.task_mut(id);
        task.standing = standing;
        if let Some(job) = &mut task.job {
            (job.rank, job.price, job.passed_until) = (Some(rank), price, None);
        }
        let state = &mut self.state;
        state.best_effort.insert((rank, id));
        state.turns.ages.insert((requested, id));
        state.turns.rounds += price;
    }

    /// Whether the GPU has stood still for the next job of `id` while others waited for their turns.
    fn was_kept_for(&self, id: TaskId) -> bool {
        let state = &self.state;
        let still = state.running.is_empty() && state.turns.change.is_none();
        still && state.turns.holder == Some(id) && !state.best_effort.is_empty()
    }

    /// Takes `job` of `id` out of those that wait.
    pub(super) fn dequeue(&mut self, id: TaskId, job: &Job) {
        let state = &mut self.state;
        let turns = &mut state.turns;
        state.best_effort.remove((job.rank.unwrap_or_default(), id));
        turns.remove(id, job);
        if turns.next == Some(id) {
            turns.next = None;
        }
    }

    /// Nothing can be done now for the job of `id`, which waits: until then it holds nobody back.
    pub(super) fn pass_over(&mut self, id: TaskId, until: Time) {
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        let before = job.clone();
        job.passed_until = Some(until);
        let turns = &mut self.state.turns;
        turns.remove(id, &before);
        turns.passed_over.insert((until, id));
        turns.change.take_if(|change| change.to == id);
    }

    /// Those that were passed over until now are as all others again.
    pub(super) fn take_back(&mut self) {
        while let Some((until, id)) = self.state.turns.passed_over.first()
            && until <= self.state.now
        {
            let Some(job) = &mut self.task_mut(id).job else {
                return;
            };
            job.passed_until = None;
            let (requested, price) = (job.requested, job.price);
            let turns = &mut self.state.turns;
            turns.passed_over.pop_first();
            turns.ages.insert((requested, id));
            turns.rounds += price;
        }
    }

    /// Counts the GPU time of the best-effort `job` of `id`, which ends now.
    pub(super) fn count_turn(&mut self, id: TaskId, job: &Job) {
        let Some(granted) = job.granted.filter(|_| job.deadline.is_none()) else {
            return;
        };
        let now = self.state.now;
        let ran = now - granted;
        let task = self.task_mut(id);
        task.ran.add(now, ran);
        let standing = &mut task.standing;
        standing.virtual_time += virtual_time(ran, standing.weight);
        let had = standing.virtual_time;
        self.state.turns.floor = self.state.floor(Some(had));
        if job.place == Place::Running {
            self.state.turns.settled += ran;
        }
    }

    /// The best-effort job of `id` is granted the GPU.
    pub(super) fn begin_turn(&mut self, id: TaskId) {
        let now = self.state.now;
        let task = self.task_mut(id);
        task.waited.note(now, now - task.standing.requested);
        let turns = &mut self.state.turns;
        let change = turns.change.take_if(|change| change.to == id);
        let former = turns.holder.replace(id).filter(|former| *former != id);
        let ends = former.is_some() && !self.discipline.manners().shares_turns;
        if ends || change.is_some() {
            turns.since = now;
        }
        let Some(change) = change else { return };
        let settled = core::mem::take(&mut turns.settled);
        let took = change.still_since.map_or(Nanos::ZERO, |(since, before)| {
            (now - since).saturating_sub(settled.saturating_sub(before))
        });
        if change.modelled > Nanos::ZERO && change.still_since.is_some() {
            turns.learn(change.modelled, took);
        }
        let mut standing = self.task(id).standing;
        let former = former.filter(|id| self.state.tasks.get(*id).is_some_and(|t| t.job.is_some()));
        let former = former.and_then(|id| self.state.tasks.get_mut(id));
        let former = former.map(|task| &mut task.standing);
        self.discipline.changed(&mut standing, former, took);
        let task = self.task_mut(id);
        task.standing = standing;
        task.moved.add(now, took);
    }

    /// Memory moves from now on to give `id` its turn, unless it does so already.
    pub(super) fn begin_change(&mut self, id: TaskId) {
        if self.state.turns.change.is_none_or(|change| change.to != id) {
            let modelled = self.modelled(id);
            self.state.turns.change = Some(Change {
                to: id,
                still_since: None,
                modelled,
            });
        }
        let (now, runs) = (self.state.now, !self.state.running.is_empty());
        let settled = self.state.turns.settled;
        let modelled = self.modelled(id);
        if let Some(change) = &mut self.state.turns.change
            && change.still_since.is_none()
            && !runs
        {
            change.still_since = Some((now, settled));
            change.modelled = modelled;
        }
    }

    /// The state of the GPU for a decision between `holder` and `other`.
    pub(super) fn moment(&self, holder: TaskId, other: TaskId) -> Moment {
        let (state, turns) = (&self.state, &self.state.turns);
        let job = state.tasks.get(holder).and_then(|task| task.job.as_ref());
        let granted = job.and_then(|job| job.granted);
        Moment {
            since: turns.since,
            granted: granted.unwrap_or(state.now),
            settled: turns.settled,
            change: turns.as_learnt(self.modelled(other)),
            price: turns.as_learnt(self.price(other)),
            waiting: state.best_effort.len() as u64 - u64::from(self.waits(holder)),
            presses: self.presses(other),
        }
    }

    /// When the turn of `holder` ends for `other`.
    pub(super) fn turn_ends(&self, holder: TaskId, other: TaskId) -> Time {
        let moment = self.moment(holder, other);
        let standing = |id| &self.task(id).standing;
        let (holder, other) = (standing(holder), standing(other));
        self.discipline.turn_ends(holder, other, &moment)
    }

    /// Until when the GPU is kept for the next job of the task that ran last, if it has none now and `other`
    /// waits for the turn.
    pub(super) fn keeps_until(&self, other: TaskId) -> Option<Time> {
        let holder = self.state.turns.holder?;
        let task = self.state.tasks.get(holder)?;
        let kept = task.job.is_none() && task.attachment == Attachment::Attached && !task.parked;
        let moment = self.moment(holder, other);
        kept.then(|| task.last_left + self.discipline.keeps(&task.standing, &moment))
    }

    /// When `other`, which waits, may have its turn.
    pub(super) fn turn_due(&self, other: TaskId) -> Time {
        let now = self.state.now;
        let Some(holder) = self.state.turns.holder else {
            return now;
        };
        let waits = |job: &Job| job.place == Place::BestEffort && job.passed_until.is_none();
        let goes_on = |job: &Job| job.place == Place::Running || waits(job);
        let job = self.state.tasks.get(holder).map(|task| task.job.as_ref());
        let runs = self.state.running.iter();
        let runs = runs.filter(|id| **id != holder && !self.task(**id).realtime_job());
        let ended = runs.map(|id| self.turn_ends(*id, other)).min();
        let due = match job {
            _ if holder == other => now,
            Some(Some(job)) if goes_on(job) => self.turn_ends(holder, other),
            Some(None) => match self.keeps_until(other) {
                Some(until) => until.min(self.turn_ends(holder, other)),
                None => now,
            },
            _ => now,
        };
        // Of several that run side by side any may have had its turn.
        due.min(ended.unwrap_or(Time::MAX))
    }

    /// The job that goes before all others because it has waited so long.
    pub(super) fn pressing(&self) -> Option<TaskId> {
        let (_, id) = self.state.turns.ages.first()?;
        (self.presses(id) <= self.state.now).then_some(id)
    }

    /// The job that has waited longest, if it would wait too long with a change for `other` before it that
    /// begins `at`. It may be that of `other`.
    pub(super) fn endangered(&self, other: TaskId, at: Time) -> Option<TaskId> {
        let (_, oldest) = self.state.turns.ages.first()?;
        let change = self.state.turns.as_learnt(self.price(other));
        let passed = at + self.discipline.delay(change);
        (self.presses(oldest) < passed).then_some(oldest)
    }

    /// When the job of `id` goes before all others: only that of the oldest does, and early enough that each
    /// one behind it in age has its turn in time as well.
    fn presses(&self, id: TaskId) -> Time {
        let turns = &self.state.turns;
        let (Some((_, oldest)), Some(bound)) = (turns.ages.first(), self.discipline.longest_wait())
        else {
            return Time::MAX;
        };
        if oldest != id {
            return Time::MAX;
        }
        let each = |price: Nanos| self.discipline.delay(turns.as_learnt(price));
        // One of those that have their memory may just have been granted the GPU, another be leaving it, and
        // a chunk of a third be on its way.
        let beside = each(Nanos::ZERO) + each(Nanos::ZERO) + each(Nanos::ZERO);
        let (mut before, mut presses) = (beside, Time::MAX);
        for (place, (since, id)) in turns.ages.iter().enumerate().take(LOOK) {
            let price = self
                .task(id)
                .job
                .as_ref()
                .map_or(Nanos::ZERO, |job| job.price);
            before += each(price);
            if place + 1 == LOOK {
                // The rest as if all of them waited as long.
                let rest = (turns.ages.len() - LOOK) as u64;
                before += Nanos(each(Nanos::ZERO).0.saturating_mul(rest)) + each(turns.rounds);
            }
            presses = presses.min(since + bound.saturating_sub(before));
        }
        presses
    }

    /// How long the GPU stands still to give `id` its turn now, by the cost model.
    fn modelled(&self, id: TaskId) -> Nanos {
        let task = self.task(id);
        let leaves = task.short().saturating_sub(self.state.free());
        self.exchange(leaves, task.usage.swapped)
    }

    /// What it takes to move `leaves` out and `comes` in.
    fn exchange(&self, leaves: Bytes, comes: Bytes) -> Nanos {
        let (cost, chunk) = (&self.config.swap_cost, self.config.chunk);
        let out = cost.out.bound(leaves, chunk);
        let in_ = cost.in_.bound(comes, chunk);
        if self.discipline.manners().overlaps {
            out.max(in_)
        } else {
            out + in_
        }
    }

    /// What giving `id` its turn takes at most, by the cost model.
    fn price(&self, id: TaskId) -> Nanos {
        let arena = self.task(id).usage.arena;
        let (cost, chunk) = (&self.config.swap_cost, self.config.chunk);
        let out = cost.out.bound(arena, chunk);
        let in_ = cost.in_.bound(arena, chunk);
        // More than one may have to leave, and not all of that while it comes.
        out.max(in_) + Nanos(out.min(in_).0 / 2)
    }

    /// How long any of those that wait now will have waited at most, the time of realtime not counted; none if
    /// there is no bound.
    pub fn longest_wait(&self) -> Option<Nanos> {
        let turns = &self.state.turns;
        let bound = self.discipline.longest_wait()?;
        let each = |(_, id)| {
            let price = self
                .task(id)
                .job
                .as_ref()
                .map_or(Nanos::ZERO, |job| job.price);
            self.discipline.delay(turns.as_learnt(price))
        };
        Some(bound.max(turns.ages.iter().map(each).sum()))
    }
}

impl Standing {
    pub(crate) fn of(weight: crate::task::Weight) -> Self {
        Self {
            weight,
            ..Self::default()
        }
    }
}
