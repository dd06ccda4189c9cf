//! Room for tasks outside the plan. The volumes leave them the memory that they need wherever the admission
//! test allows it: no program is refused memory, or waits for it, that realtime can do without.
//!
//! A task outside the plan has room if the planned tasks, all as far out as their volumes allow, leave all
//! its memory free beside what of the others cannot be swapped. The volumes are chosen so whenever a plan
//! is sought, and another plan is sought when such a task gets nothing under the one that there is.

use alloc::vec::Vec;

use super::record::{Attachment, Task};
use super::{Refusal, Scheduler};
use crate::assign::{Assignment, Demand, Infeasible, Room, assign};
use crate::task::{MemoryProfile, TaskId, Timing};
use crate::units::{Bytes, Nanos};

/// The time from one search for another plan to the next: searching takes the time of others, and whoever
/// asks for ever new sizes could take all of it.
const PAUSE: Nanos = Nanos(100_000_000);

/// A search in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied {
    room: Room,
    /// Of the plan at that time.
    revision: u64,
}

/// What is to be solved.
struct Problem<'a> {
    scheduler: &'a Scheduler,
    members: Vec<(TaskId, Timing)>,
    demands: Vec<Demand>,
}

impl Scheduler {
    /// The best volumes for all tasks of the plan to come, or why there are none. Of those that the test
    /// allows, they leave the most room that a task outside the plan needs.
    pub(super) fn solve(&self) -> Result<Vec<(TaskId, Bytes)>, Refusal> {
        let problem = Problem::new(self);
        let reserve = self.config.best_effort_reserve;
        let capacity = self.state.capacity.saturating_sub(reserve);
        let mut best = problem.solve(capacity.into()).map_err(|reason| {
            let name = |place: usize| self.task(problem.members[place].0).spec.name.as_str();
            Refusal::NotSchedulable {
                capacity,
                reserve,
                reason: reason.describe(&problem.demands, name),
            }
        })?;
        let stays = self.state.unswappable_outside();
        let outside = self.state.tasks.iter();
        let mut rooms: Vec<_> = outside
            .filter(|(_, task)| task.next.is_none() && task.attachment == Attachment::Attached)
            .map(|(_, task)| self.room_beside(task, stays))
            .filter(|room| !problem.leaves(&best, *room))
            .collect();
        rooms.sort_unstable_by_key(|room| room.idle);
        // Volumes that leave one room leave each smaller one, unless the two differ in what cannot be swapped.
        let (mut first, mut end) = (0, rooms.len());
        while first < end {
            let middle = first + (end - first) / 2;
            match problem.solve(rooms[middle]) {
                Ok(found) => (best, end) = (found, middle),
                Err(_) => first = middle + 1,
            }
        }
        Ok(problem.volumes(best))
    }

    /// What is left to the planned tasks when `task`, outside the plan, has all its memory. `stays` is what
    /// of all tasks outside the plan cannot be swapped.
    fn room_beside(&self, task: &Task, stays: Bytes) -> Room {
        let wanted = task.want.map_or(Bytes::ZERO, |want| want.total);
        let needs = task.holds().max(task.footprint).max(wanted);
        let unswappable = needs.saturating_sub(task.backing_most.unwrap_or(Bytes::MAX));
        let unswappable = unswappable.max(task.unswappable());
        let others = stays.saturating_sub(task.unswappable());
        let kept = (others + unswappable).max(self.config.best_effort_reserve);
        Room {
            running: self.state.capacity.saturating_sub(kept),
            idle: self.state.capacity.saturating_sub(others + needs),
        }
    }

    /// Whether a plan to come may give `id` its memory, a task outside the plan that gets none under the one
    /// that there is. Where none is to come, one is sought.
    pub(super) fn finds_room(&mut self, id: TaskId) -> bool {
        if self.state.pending.is_some() {
            return true;
        }
        let task = self.task(id);
        if task.next.is_some() || !self.state.tasks.values().any(|task| task.next.is_some()) {
            return false;
        }
        let room = self.room_beside(task, self.state.unswappable_outside());
        let now = self.state.now;
        let state = self.state.settled();
        let sums = state.sums();
        let kept = sums.needs[1].saturating_sub(sums.volumes[1]);
        let planned = state.planned(None, Bytes::ZERO, true);
        if kept <= room.idle && planned <= room.running {
            return false;
        }
        let revision = state.plan_revision();
        let denied = self.state.denied;
        if denied.is_some_and(|denied| {
            denied.revision == revision
                && room.running <= denied.room.running
                && room.idle <= denied.room.idle
        }) {
            return false;
        }
        // Nor does a search take the time of realtime jobs. Their end is an event.
        if self.state.realtime_active() {
            return true;
        }
        if now < self.state.search_after {
            self.retry_by(self.state.search_after);
            return true;
        }
        self.state.search_after = now + PAUSE;
        let problem = Problem::new(self);
        // Takes from others what they were left only if there is no other way.
        let also = Room {
            running: room.running.min(planned),
            idle: room.idle.min(kept),
        };
        if let Ok(found) = problem.solve(also).or_else(|_| problem.solve(room)) {
            let volumes = problem.volumes(found);
            self.intend(&volumes);
        }
        // The same volumes are no answer either: the planned tasks hold more than they declared.
        if self.state.pending.is_none() {
            self.state.denied = Some(Denied { room, revision });
            return false;
        }
        // It may take effect at once, with no event that tells of it.
        self.retry_by(now);
        true
    }
}

impl<'a> Problem<'a> {
    fn new(scheduler: &'a Scheduler) -> Self {
        let members = scheduler.members();
        let demand = |(id, timing): &(TaskId, Timing)| {
            let task = scheduler.task(*id);
            let most = task.backing_most.unwrap_or(Bytes::MAX);
            let MemoryProfile {
                footprint,
                swappable,
            } = task.spec.memory;
            Demand {
                timing: *timing,
                memory: MemoryProfile {
                    footprint,
                    swappable: swappable.min(most),
                },
            }
        };
        Self {
            scheduler,
            demands: members.iter().map(demand).collect(),
            members,
        }
    }

    fn solve(&self, room: Room) -> Result<Assignment, Infeasible> {
        let config = &self.scheduler.config;
        let platform = config.platform();
        assign(
            config.test,
            &platform,
            room,
            &self.demands,
            config.objective,
        )
    }

    /// Whether `found` leaves `room`.
    fn leaves(&self, found: &Assignment, room: Room) -> bool {
        let footprints = self.demands.iter().map(|demand| demand.memory.footprint);
        let all: Bytes = footprints.map(|bytes| bytes.round_up(found.chunk)).sum();
        let kept = all.saturating_sub(found.volumes.iter().copied().sum());
        let most = found.volumes.iter().copied().max().unwrap_or_default();
        kept <= room.idle && kept + most <= room.running
    }

    fn volumes(&self, found: Assignment) -> Vec<(TaskId, Bytes)> {
        let ids = self.members.iter().map(|(id, _)| *id);
        ids.zip(found.volumes).collect()
    }
}
