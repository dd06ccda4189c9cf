//! The only way to the books: through it they are up to date.

use core::ops::Deref;

use super::State;
use crate::scheduler::books::{Share, Sums};
use crate::scheduler::config::Sharing;
use crate::scheduler::record::Victim;
use crate::task::TaskId;
use crate::units::{Bytes, Time};

/// A state with its books up to date. It borrows the state, so that no task can change meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Settled<'a>(&'a State);

impl Deref for Settled<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.0
    }
}

impl State {
    /// Brings the books up to date.
    pub(crate) fn settled(&mut self) -> Settled<'_> {
        let mut volumes = false;
        while let Some((place, id, task)) = self.tasks.next_touched() {
            let share = Share::of(id, task, self.chunk);
            volumes |= self.books.replace(place, id, &share);
        }
        if volumes {
            self.books.review_volumes();
        }
        self.books.note_pending(self.pending.is_some());
        Settled(self)
    }

    /// What is wrong, if the books are not those of the tasks.
    pub(crate) fn books_disagree(&self) -> Option<&'static str> {
        self.books.disagree(&self.tasks, self.chunk)
    }
}

impl<'a> Settled<'a> {
    /// The sums over all tasks.
    pub(crate) fn sums(self) -> &'a Sums {
        &self.0.books.sums
    }

    /// See [`Scheduler::plan_revision`](crate::scheduler::Scheduler::plan_revision).
    pub(crate) fn plan_revision(self) -> u64 {
        self.0.books.revision()
    }

    /// What `id`, a known task, adds to them.
    pub(crate) fn share(self, id: TaskId) -> &'a Sums {
        let place = self.0.tasks.place(id).expect("the id of a known task");
        self.0.books.share(place)
    }

    /// All tasks that have anything to give, in the order of eviction.
    pub(crate) fn victims(self) -> impl Iterator<Item = TaskId> + 'a {
        self.0.books.victims.iter().map(|(_, _, id)| id)
    }

    /// The first of them, or the first one behind `last`.
    pub(crate) fn victim_after(self, last: Option<Victim>) -> Option<Victim> {
        let victims = &self.0.books.victims;
        match last {
            Some(last) => victims.after(last),
            None => victims.first(),
        }
    }

    /// When the next task that was spared as a victim is spared no more.
    pub(crate) fn spared_passes(self) -> Option<Time> {
        self.0
            .books
            .spared
            .after(self.end_of_now())
            .map(|(at, _)| at)
    }

    /// When the next unused fresh budget may be taken for best-effort.
    pub(crate) fn fresh_passes(self) -> Option<Time> {
        self.0
            .books
            .fresh
            .after(self.end_of_now())
            .map(|(at, _)| at)
    }

    /// The task that leaves first because it is idle, or the first one behind `last`, and when.
    pub(crate) fn idle_after(self, last: Option<(Time, TaskId)>) -> Option<(Time, TaskId)> {
        let idle = &self.0.books.idle;
        match last {
            Some(last) => idle.after(last),
            None => idle.first(),
        }
    }

    /// When the next task leaves because it is idle.
    pub(crate) fn idles_out(self) -> Option<Time> {
        self.idle_after(Some(self.end_of_now())).map(|(at, _)| at)
    }

    fn end_of_now(self) -> (Time, TaskId) {
        (self.now, TaskId(u32::MAX))
    }

    /// No realtime job eligible, no region open, no swap in flight.
    pub(crate) fn quiet(self) -> bool {
        let moves = self.out.is_some() || self.in_.is_some();
        !self.realtime_active() && !moves && self.sums().aside == 0
    }

    /// Whether best-effort has to leave the GPU for realtime jobs. In `Shared` mode it may stay while
    /// the free memory covers what ready tasks lack: then nothing needs to be evicted, so no victim has
    /// to drain in the middle of a busy period.
    pub(crate) fn clears_best_effort(self) -> bool {
        self.realtime_active()
            && (self.sharing == Sharing::Exclusive || self.sums().lacked > self.free())
    }

    /// Whether dying memory may still be released in time for the job that waits for it.
    pub(crate) fn awaits_release(self) -> bool {
        self.now < self.released_by && self.sums().dying > Bytes::ZERO
    }

    /// The most that the plan needs at once, `id` counted with a need of at least `need`: the
    /// left side of (1c).
    pub(crate) fn planned(self, id: Option<TaskId>, need: Bytes, next: bool) -> Bytes {
        let plan = usize::from(next);
        let (sums, most) = (self.sums(), self.0.books.most[plan]);
        let more = id.map_or(Bytes::ZERO, |id| {
            let task = &self.tasks[id];
            let planned = if next { task.next } else { task.plan };
            let more = need.saturating_sub(self.share(id).needs[plan]);
            planned.map_or(Bytes::ZERO, |_| more)
        });
        (sums.needs[plan] + more).saturating_sub(sums.volumes[plan] - most)
    }

    /// What of best-effort cannot leave, `id` counted with a budget of `budget`.
    pub(crate) fn unmovable(self, id: Option<TaskId>, budget: Bytes, next: bool) -> Bytes {
        let plan = usize::from(next);
        let sum = self.sums().unmovable[plan];
        let Some(id) = id else {
            return sum;
        };
        let task = &self.tasks[id];
        let planned = if next { task.next } else { task.plan };
        let now = planned.map_or(task.unmovable(budget), |_| Bytes::ZERO);
        sum.saturating_sub(self.share(id).unmovable[plan]) + now
    }
}
