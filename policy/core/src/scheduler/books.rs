//! Sums and orders over all tasks, kept as tasks change: a decision looks at no task that it does
//! not concern. They are read through `state::Settled`, which brings them up to date first.
//! `check_invariants` makes them anew and compares.

use alloc::vec::Vec;

use super::order::Order;
use super::record::{Attachment, Cause, Phase, Task, Victim};
use super::tasks::Tasks;
use crate::scheduler::job::Place;
use crate::task::{TaskId, Timing};
use crate::units::{Bytes, Time};

/// Sums over tasks. Pairs are by plan: in effect, and to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Budget that was lowered, but not yet confirmed by the shell.
    pub(crate) lowering: Bytes,
    /// On the GPU and known never to leave.
    pub(crate) fixed: Bytes,
    /// What the planned tasks need in order to run.
    pub(crate) needs: [Bytes; 2],
    /// The part of `needs` that may be swapped out.
    pub(crate) volumes: [Bytes; 2],
    /// What the budgets of ready tasks lack of their needs.
    pub(crate) lacked: Bytes,
    /// The part of the other tasks' memory that could not be made to leave.
    pub(crate) unmovable: [Bytes; 2],
    /// What can be made to leave now, at most.
    pub(crate) yields: Bytes,
    /// What may have to leave to others in time: what is dying, and all that may be swapped out,
    /// once backing stores are pinned and jobs have run.
    pub(crate) leaves: Bytes,
    /// Bytes left on the GPU by dead processes, which the driver has not released yet.
    pub(crate) dying: Bytes,
    /// Tasks with a `SetBudget` not answered.
    pub(crate) unanswered: u64,
    /// Realtime jobs put aside.
    pub(crate) aside: u64,
    /// Tasks without the backing store of the plan to come.
    pub(crate) unpinned: u64,
    /// Ready tasks that are out by more than the plan to come allows.
    pub(crate) beyond: u64,
}

/// What one task adds to the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) sums: Sums,
    /// x in effect and to come; unlike in the sums none is not zero.
    plans: [Option<Bytes>; 2],
    /// Of a task that is under one of the plans.
    timing: Option<Timing>,
    /// Set if it has anything to give.
    victim: Option<Victim>,
    /// Set once it was spared as a victim, or given fresh budget.
    spared: Option<Time>,
    fresh: Option<Time>,
    /// Set if it has anything to give and leaves once it has idled long enough.
    idle: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) sums: Sums,
    /// The largest volume of each plan.
    pub(crate) most: [Bytes; 2],
    pub(crate) victims: Order<Victim>,
    /// Until when tasks are no victims.
    pub(crate) spared: Order<(Time, TaskId)>,
    /// Until when unused budget is not taken for best-effort.
    pub(crate) fresh: Order<(Time, TaskId)>,
    /// When tasks leave because they are idle.
    pub(crate) idle: Order<(Time, TaskId)>,
    /// What each task adds, by its place.
    shares: Vec<Share>,
    /// Counts the changes of plans: of the volumes, of the timings, and of whether one is to come.
    revision: u64,
    pending: bool,
}

impl Sums {
    /// A sum that has overflowed finds back, so the order of changes does not matter.
    fn replace(&mut self, old: &Self, new: &Self) {
        let bytes = |sum: &mut Bytes, old: Bytes, new: Bytes| {
            sum.0 = sum.0.wrapping_sub(old.0).wrapping_add(new.0);
        };
        bytes(&mut self.lowering, old.lowering, new.lowering);
        bytes(&mut self.fixed, old.fixed, new.fixed);
        bytes(&mut self.yields, old.yields, new.yields);
        bytes(&mut self.leaves, old.leaves, new.leaves);
        bytes(&mut self.dying, old.dying, new.dying);
        bytes(&mut self.lacked, old.lacked, new.lacked);
        for plan in 0..2 {
            bytes(&mut self.needs[plan], old.needs[plan], new.needs[plan]);
            bytes(
                &mut self.volumes[plan],
                old.volumes[plan],
                new.volumes[plan],
            );
            bytes(
                &mut self.unmovable[plan],
                old.unmovable[plan],
                new.unmovable[plan],
            );
        }
        self.unanswered = self.unanswered - old.unanswered + new.unanswered;
        self.aside = self.aside - old.aside + new.aside;
        self.unpinned = self.unpinned - old.unpinned + new.unpinned;
        self.beyond = self.beyond - old.beyond + new.beyond;
    }
}

impl Share {
    pub(crate) fn of(id: TaskId, task: &Task, chunk: Bytes) -> Self {
        let plans = [task.plan, task.next];
        let need = task.footprint.max(task.holds());
        let aside = |job: &super::job::Job| job.place == Place::Aside && job.deadline.is_some();
        let next = task.next.unwrap_or_default();
        let short = task.short();
        let out = short.max(task.usage.swapped);
        let ready = task.phase == Phase::Ready;
        // What a task yields to best-effort is a part of what it yields to realtime.
        let yields = if task.evictable() {
            let unused = task.unused(Bytes::MAX, Cause::Realtime, chunk);
            task.yields(Cause::Realtime, unused, chunk)
        } else {
            Bytes::ZERO
        };
        let sums = Sums {
            lowering: task.budget.saturating_sub(task.asked),
            fixed: task.stays(),
            yields,
            leaves: task.leaves_in_time(),
            dying: task.dying,
            lacked: if ready { short } else { Bytes::ZERO },
            needs: plans.map(|plan| plan.map_or(Bytes::ZERO, |_| need)),
            volumes: plans.map(Option::unwrap_or_default),
            unmovable: plans.map(|plan| match plan {
                Some(_) => Bytes::ZERO,
                None => task.unmovable(task.kept()),
            }),
            unanswered: u64::from(task.unanswered > 0),
            aside: u64::from(task.job.as_ref().is_some_and(aside)),
            unpinned: u64::from(task.attachment != Attachment::Absent && task.backing < next),
            beyond: u64::from(ready && out > next),
        };
        let set = |time: Time| (time > Time::ZERO).then_some(time);
        Self {
            sums,
            plans,
            timing: task.timing().filter(|_| plans != [None; 2]),
            victim: (yields > Bytes::ZERO).then(|| task.victim(id)),
            spared: set(task.spared_until).filter(|_| task.attachment == Attachment::Attached),
            fresh: set(task.fresh_until),
            idle: task.idle_out().filter(|_| yields > Bytes::ZERO),
        }
    }
}

fn rearrange<K: Ord + Copy>(order: &mut Order<K>, old: Option<K>, new: Option<K>) {
    if old != new {
        if let Some(old) = old {
            order.remove(old);
        }
        if let Some(new) = new {
            order.insert(new);
        }
    }
}

impl Books {
    pub(crate) fn new() -> Self {
        Self {
            sums: Sums::default(),
            most: [Bytes::ZERO; 2],
            victims: Order::new(),
            spared: Order::new(),
            fresh: Order::new(),
            idle: Order::new(),
            shares: Vec::new(),
            revision: 0,
            pending: false,
        }
    }

    pub(crate) fn reserve(&mut self, tasks: usize) {
        self.victims.reserve(tasks);
        self.spared.reserve(tasks);
        self.fresh.reserve(tasks);
        self.idle.reserve(tasks);
        self.shares.reserve(tasks.saturating_sub(self.shares.len()));
    }

    /// Makes room for a task at `place`, which adds nothing yet.
    pub(crate) fn insert(&mut self, place: usize) {
        self.shares.insert(place, Share::default());
    }

    /// Forgets the task `id` at `place`.
    pub(crate) fn remove(&mut self, place: usize, id: TaskId) {
        let volumes = self.replace(place, id, &Share::default());
        self.shares.remove(place);
        if volumes {
            self.review_volumes();
        }
    }

    /// What the task at `place` adds to the sums.
    pub(crate) fn share(&self, place: usize) -> &Sums {
        &self.shares[place].sums
    }

    /// Replaces the share of `id` at `place`. True if volumes have changed.
    pub(crate) fn replace(&mut self, place: usize, id: TaskId, new: &Share) -> bool {
        let old = core::mem::replace(&mut self.shares[place], *new);
        if old == *new {
            return false;
        }
        self.revision += u64::from((old.plans, old.timing) != (new.plans, new.timing));
        self.sums.replace(&old.sums, &new.sums);
        let with = |time: Option<Time>| time.map(|time| (time, id));
        rearrange(&mut self.victims, old.victim, new.victim);
        rearrange(&mut self.spared, with(old.spared), with(new.spared));
        rearrange(&mut self.fresh, with(old.fresh), with(new.fresh));
        rearrange(&mut self.idle, with(old.idle), with(new.idle));
        old.sums.volumes != new.sums.volumes
    }

    /// Notes whether a plan is to come.
    pub(crate) fn note_pending(&mut self, pending: bool) {
        self.revision += u64::from(self.pending != pending);
        self.pending = pending;
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Looks for the largest volume of each plan anew.
    pub(crate) fn review_volumes(&mut self) {
        self.most = [Bytes::ZERO; 2];
        for share in &self.shares {
            for (most, volume) in self.most.iter_mut().zip(share.sums.volumes) {
                *most = volume.max(*most);
            }
        }
    }

    /// What is wrong, if the books are not those of `tasks`.
    pub(crate) fn disagree(&self, tasks: &Tasks, chunk: Bytes) -> Option<&'static str> {
        let mut sums = Sums::default();
        let mut most = [Bytes::ZERO; 2];
        let (mut victims, mut spared, mut fresh, mut idle) = (0, 0, 0, 0);
        for (place, (id, task)) in tasks.iter().enumerate() {
            let share = Share::of(id, task, chunk);
            if self.shares.get(place) != Some(&share) {
                return Some("the share of a task");
            }
            sums.replace(&Sums::default(), &share.sums);
            for (most, volume) in most.iter_mut().zip(share.sums.volumes) {
                *most = volume.max(*most);
            }
            let stands = share
                .victim
                .is_none_or(|victim| self.victims.contains(victim))
                && share.spared.is_none_or(|at| self.spared.contains((at, id)))
                && share.fresh.is_none_or(|at| self.fresh.contains((at, id)))
                && share.idle.is_none_or(|at| self.idle.contains((at, id)));
            if !stands {
                return Some("a task that is missing in an order");
            }
            victims += usize::from(share.victim.is_some());
            spared += usize::from(share.spared.is_some());
            fresh += usize::from(share.fresh.is_some());
            idle += usize::from(share.idle.is_some());
        }
        if sums != self.sums || most != self.most {
            return Some("a sum over the tasks");
        }
        let lengths = [
            self.victims.len(),
            self.spared.len(),
            self.fresh.len(),
            self.idle.len(),
            self.shares.len(),
        ];
        (lengths != [victims, spared, fresh, idle, tasks.len()])
            .then_some("a task in an order where it is not due")
    }
}
