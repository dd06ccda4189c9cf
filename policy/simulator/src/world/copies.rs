//! The copy engines, shared between the copies of the running job and the swaps beside it.
//!
//! Each engine serves one swap operation and one in-job copy at most. While both are there each has half of it; an operation
//! counts from its start to its end, with its base and its pauses. Whenever one of them comes or goes, both go on from what they
//! have moved at their new pace. Nothing is told to the scheduler meanwhile.

use rtswap_policy::scheduler::{Direction, JobSeq};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

use super::{Happening, World};
use crate::error::SimError;
use crate::record::Observer;
use crate::scenario::{Execution, Scenario};
use crate::script::{Progress, Script, Speeds};

/// The script of a job under way.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    task: TaskId,
    job: JobSeq,
    /// As of `at`, from when on it works at `speeds`.
    progress: Progress,
    at: Time,
    speeds: Speeds,
    /// When its next step ends; anything planned for other instants is void.
    due: Time,
}

/// Whether any task of `scenario` copies while it runs.
pub(super) fn are_in(scenario: &Scenario) -> bool {
    let mut tasks = scenario.tasks.iter();
    tasks.any(|task| matches!(task.execution, Execution::Copies(_)))
}

impl<'a, O: Observer> World<'a, O> {
    fn script(&self, id: TaskId) -> Option<&'a Script> {
        match &self.sim(id).execution {
            Execution::Copies(script) => Some(script),
            _ => None,
        }
    }

    fn has_copy(&self, direction: Direction) -> bool {
        let copying = self.copying.as_ref();
        copying.is_some_and(|copying| copying.progress.copies(direction))
    }

    /// The time that a swap operation takes for a chunk now.
    pub(super) fn present_pace(&self, direction: Direction) -> Nanos {
        let charged = match direction {
            Direction::Out => self.pace.0,
            Direction::In => self.pace.1,
        };
        if self.has_copies && !self.has_copy(direction) {
            return Nanos(charged.0.div_ceil(2));
        }
        charged
    }

    /// The script of a job begins, or one of its steps ends.
    pub(super) fn script_is_due(&mut self, id: TaskId, job: JobSeq) -> Result<(), SimError> {
        let now = self.clock.now;
        let Some(script) = self.script(id) else {
            return Ok(());
        };
        if self.agent(id).running != Some(job) {
            return Ok(());
        }
        match &self.copying {
            None => {
                self.copying = Some(Copying {
                    task: id,
                    job,
                    progress: Progress::begin(script),
                    at: now,
                    speeds: Speeds::default(),
                    due: Time::MAX,
                });
            }
            Some(copying) if copying.due != now => return Ok(()),
            Some(_) => {}
        }
        self.share_engines();
        let copying = self.copying.as_ref();
        if copying.is_some_and(|copying| copying.progress.is_done(script)) {
            return self.job_ends(id, job);
        }
        Ok(())
    }

    /// The job of `id` has ended, or its program.
    pub(super) fn stop_copying(&mut self, id: TaskId) {
        self.copying.take_if(|copying| copying.task == id);
        self.share_engines();
    }

    /// Brings the script up to now, and gives it and the swaps the pace that they have from now on.
    pub(super) fn share_engines(&mut self) {
        if !self.has_copies {
            return;
        }
        let now = self.clock.now;
        let swaps = (self.out.is_some(), self.in_.is_some());
        if let Some(mut copying) = self.copying.take()
            && let Some(script) = self.script(copying.task)
        {
            let progress = &mut copying.progress;
            progress.advance(script, now - copying.at, &copying.speeds);
            let copies = (
                progress.copies(Direction::Out),
                progress.copies(Direction::In),
            );
            copying.at = now;
            copying.speeds = script.link().speeds(copies, swaps);
            // With the last step ended, what is planned for now ends the job.
            let next = progress.next_end(&copying.speeds);
            let due = next.map_or(now, |span| now + span);
            if due != copying.due {
                copying.due = due;
                let step = Happening::Script(copying.task, copying.job);
                self.clock.plan(due, step);
            }
            self.copying = Some(copying);
        }
        for (id, direction) in [(self.out, Direction::Out), (self.in_, Direction::In)] {
            let pace = self.present_pace(direction);
            if let Some(id) = id
                && let Some(moving) = &mut self.agent(id).moving
                && moving.pace != pace
            {
                moving.change_pace(now, pace);
                self.plan_swap(id);
            }
        }
    }
}
