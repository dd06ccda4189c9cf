//! What must hold after every event: the seven of the design, and that the books agree.

use alloc::format;
use alloc::string::String;

use super::record::{Attachment, Phase, Task};
use super::{Direction, Sharing, State};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::{Bytes, Time};

/// A violated invariant: a bug of the scheduler, not of what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {number} is violated: {detail}")]
pub struct InvariantError {
    /// Of DESIGN.md section 3.
    pub number: u8,
    /// The task and the state that break it, in words and numbers.
    pub detail: String,
}

fn violated(number: u8, detail: String) -> Result<(), InvariantError> {
    Err(InvariantError { number, detail })
}

impl State {
    pub(super) fn check_invariants(&self) -> Result<(), InvariantError> {
        self.memory_adds_up()?;
        self.one_job_holds_the_gpu()?;
        for (id, task) in self.tasks.iter() {
            Self::residency(id, task)?;
            Self::parked_tasks_wait(id, task)?;
            if let Some(job) = &task.job {
                self.job_is_in_one_place(id, job)?;
            }
        }
        self.earliest_deadline_first()?;
        self.queues_hold_only_jobs()?;
        match self.books_disagree() {
            Some(what) => violated(1, format!("the books are wrong about {what}")),
            None => Ok(()),
        }
    }

    /// 1. What is held and reserved fits, or nothing was reserved since it did not.
    fn memory_adds_up(&self) -> Result<(), InvariantError> {
        let held: Bytes = self.tasks.values().map(|t| t.budget + t.dying).sum();
        if held != self.held {
            return violated(1, format!("{held} are held, the books say {}", self.held));
        }
        if held > self.ceiling {
            return violated(1, format!("{held} are held of {}", self.ceiling));
        }
        for (id, task) in self.tasks.iter() {
            if task.usage.resident > task.budget || task.asked > task.budget {
                let budget = task.budget;
                return violated(1, format!("{id:?} holds or may hold more than {budget}"));
            }
        }
        Ok(())
    }

    /// 3. Of what was granted in the present mode, not taken over, one job runs; in shared mode one realtime job.
    fn one_job_holds_the_gpu(&self) -> Result<(), InvariantError> {
        let granted = self
            .running
            .iter()
            .filter_map(|id| self.tasks.get(*id)?.job.as_ref())
            .filter(|job| !job.beside)
            .filter(|job| self.sharing == Sharing::Exclusive || job.deadline.is_some());
        match granted.count() {
            0 | 1 => Ok(()),
            many => violated(3, format!("{many} jobs were granted the GPU")),
        }
    }

    /// Invariants 2 and 5: a running task is wholly resident, and no task is out by more than its plan
    /// and its backing store allow.
    fn residency(id: TaskId, task: &Task) -> Result<(), InvariantError> {
        let out = task.usage.swapped;
        if task.runs() && (out > Bytes::ZERO || task.op.is_some()) {
            return violated(2, format!("{id:?} runs with {out} out"));
        }
        if out > task.backing {
            return violated(
                5,
                format!("{out} of {id:?} are out, beyond its backing store"),
            );
        }
        let Some(volume) = task.plan.filter(|_| task.phase == Phase::Ready) else {
            return Ok(());
        };
        if out > volume.max(task.carried) {
            return violated(5, format!("{out} of {id:?} are out, x is {volume}"));
        }
        let region = task
            .job
            .as_ref()
            .is_some_and(|job| job.place == Place::Region);
        let leaves = task
            .op
            .as_ref()
            .is_some_and(|op| op.direction == Direction::Out);
        if region && leaves {
            return violated(5, format!("{id:?} is swapped out in its region"));
        }
        Ok(())
    }

    /// Invariant 7 of parked tasks: a job of one is on the GPU or in its region since before, or it waits in no
    /// queue; without such a job the task has no deadlines.
    fn parked_tasks_wait(id: TaskId, task: &Task) -> Result<(), InvariantError> {
        let job = task.job.as_ref();
        let is_held = job.is_some_and(|job| job.place == Place::Parked);
        let waits = job.is_some() && !task.is_busy();
        if is_held != (task.parked && waits) {
            return violated(7, format!("a job of {id:?} waits as if parked, or not so"));
        }
        if task.is_held() && task.phase == Phase::Ready {
            return violated(7, format!("{id:?} is parked and ready"));
        }
        Ok(())
    }

    /// 4. and 7. One swap-in a job, and each open job in exactly one place.
    fn job_is_in_one_place(&self, id: TaskId, job: &Job) -> Result<(), InvariantError> {
        if job.deadline.is_some() && job.swap_ins > 1 + job.failures {
            return violated(4, format!("{id:?} was swapped in {} times", job.swap_ins));
        }
        let due = job.deadline.unwrap_or(Time::MAX);
        let places = [
            (Place::Queue, usize::from(self.queue.contains((due, id)))),
            (
                Place::Later,
                usize::from(self.later.contains((job.wakes, id))),
            ),
            (Place::Region, usize::from(self.region == Some(id))),
            (
                Place::BestEffort,
                usize::from(
                    self.best_effort
                        .contains((job.rank.unwrap_or_default(), id)),
                ),
            ),
            (
                Place::Running,
                self.running.iter().filter(|o| **o == id).count(),
            ),
        ];
        let place = match job.place {
            Place::Aside => Place::Later,
            place => place,
        };
        for (other, count) in places {
            if count != usize::from(other == place) {
                return violated(
                    7,
                    format!("{id:?} in {place:?} is {count} times in {other:?}"),
                );
            }
        }
        Ok(())
    }

    /// Invariant 6: when a region opened, no job with an earlier deadline was eligible; while a region
    /// waits, only swap operations for it have started.
    fn earliest_deadline_first(&self) -> Result<(), InvariantError> {
        let job_of = |id: &TaskId| Some((*id, self.tasks.get(*id)?.job.as_ref()?));
        for (id, job) in self.running.iter().chain(&self.region).filter_map(job_of) {
            let (Some(due), Some(opened)) = (job.deadline, job.opened) else {
                continue;
            };
            let mut earlier = self.queue.iter().take_while(|(earlier, _)| *earlier < due);
            let overtaken = earlier.find(|(_, other)| {
                let waiting = job_of(other).map(|(_, waiting)| waiting);
                waiting.is_some_and(|w| w.eligible < opened && !w.stalled)
            });
            if let Some((_, other)) = overtaken {
                return violated(6, format!("{id:?} overtook {other:?}, due earlier"));
            }
        }
        let Some((region, opened)) = self
            .region
            .as_ref()
            .and_then(job_of)
            .and_then(|(id, job)| Some((id, job.opened?)))
        else {
            return Ok(());
        };
        for engine in [self.out, self.in_].into_iter().flatten() {
            let op = self.tasks.get(engine).and_then(|task| task.op.as_ref());
            // A pipelined region opens with both engines free.
            let free = self.pipelined_region(region);
            let foreign = op
                .is_some_and(|op| op.beneficiary != Some(region) && (free || op.started > opened));
            if foreign {
                return violated(
                    6,
                    format!("{engine:?} is swapped while {region:?} waits to run"),
                );
            }
        }
        Ok(())
    }

    fn pipelined_region(&self, region: TaskId) -> bool {
        let op = self.tasks.get(region).and_then(|task| task.op.as_ref());
        op.is_some_and(|op| op.pipelined)
    }

    /// Invariant 7: the queues name open jobs, budget requests and operations only.
    fn queues_hold_only_jobs(&self) -> Result<(), InvariantError> {
        let waiting = self.queue.iter().chain(self.later.iter()).map(|(_, id)| id);
        let best_effort = self.best_effort.iter().map(|(_, id)| id);
        let others = self.running.iter().chain(&self.region).copied();
        let mut placed = 0;
        for id in waiting.chain(best_effort).chain(others) {
            placed += 1;
            if self.tasks.get(id).is_none_or(|task| task.job.is_none()) {
                return violated(7, format!("{id:?} is queued without a job"));
            }
        }
        // With each open job in its one place, this leaves no second place to any.
        let stray = |job: &Job| matches!(job.place, Place::Stray | Place::Parked);
        let jobs = self.tasks.values().filter_map(|task| task.job.as_ref());
        let open = jobs.filter(|job| !stray(job)).count();
        let ages = self.turns.ages.len() + self.turns.passed_over.len();
        if ages != self.best_effort.len() {
            return violated(7, format!("{ages} best-effort jobs wait by their age"));
        }
        if open != placed {
            return violated(7, format!("{open} jobs are open, {placed} queued"));
        }
        let wants = self
            .tasks
            .values()
            .filter(|task| task.want.is_some())
            .count();
        let asks = |id: &TaskId| self.tasks.get(*id).is_some_and(|task| task.want.is_some());
        if wants != self.wants.len() || !self.wants.iter().all(asks) {
            return violated(
                7,
                format!("{wants} wants are open, {:?} queued", self.wants),
            );
        }
        for (engine, way) in [(self.out, Direction::Out), (self.in_, Direction::In)] {
            let Some(id) = engine else { continue };
            let op = self.tasks.get(id).and_then(|task| task.op.as_ref());
            if op.is_none_or(|op| op.direction != way || op.overdue) {
                return violated(
                    7,
                    format!("{id:?} holds the copy engine {way:?} for nothing"),
                );
            }
        }
        let stray = self.tasks.iter().find(|(_, task)| {
            task.attachment != Attachment::Attached
                && (task.op.is_some() || task.job.is_some() || task.want.is_some())
        });
        match stray {
            Some((id, _)) => violated(7, format!("{id:?} has open business and no agent")),
            None => Ok(()),
        }
    }
}
