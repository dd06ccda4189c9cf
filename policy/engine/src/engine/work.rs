//! The loop between schedulers and process groups: one list of work per GPU, so that a task of one GPU
//! is never passed to another GPU's scheduler. A refusal is noted and answered once the GPU is quiet;
//! nothing here is re-entrant.
//!
//! One step of a GPU's work is the first of these that there is:
//!
//! 1. an effect of the group that was heard or ordered last: an answer must reach the scheduler before it
//!    is asked for more;
//! 2. a command of the scheduler, for a group to share out;
//! 3. a conclusion of a group that has changed, now that the scheduler wants nothing more;
//! 4. the conclusion of the piece of work under way: was it refused?
//! 5. the next piece of work.

use rtswap_policy::scheduler::{Event, EventError};
use rtswap_policy::task::TaskId;

use super::Engine;
use super::agenda::{Chore, Work};
use crate::groups::{Effect, ProcessGroup};
use crate::output::{Level, LogLine, Output};
use crate::timers::Timer;

impl Engine {
    /// Adds to the work on a GPU.
    pub(super) fn queue(&mut self, gpu: usize, work: Work) {
        self.gpus[gpu].work.queue.push_back(work);
    }

    /// Adds to what is done once no GPU has work.
    pub(super) fn chore(&mut self, chore: Chore) {
        self.desk.chores.push_back(chore);
    }

    /// The index of a GPU that has work.
    pub(super) fn busy_gpu(&self) -> Option<usize> {
        self.gpus.iter().position(|gpu| !gpu.work.is_empty())
    }

    /// Does the next step of a GPU's work. Returns an order to an agent, if that is the step.
    pub(super) fn work_on(&mut self, gpu: usize) -> Option<Output> {
        let work = &mut self.gpus[gpu].work;
        if let Some(task) = work.draining {
            match self.tasks.group(task).and_then(ProcessGroup::poll) {
                Some(Effect::Tell(event)) => {
                    self.tell_of_group(gpu, task, event);
                    return None;
                }
                Some(Effect::Order(process, order)) => {
                    return self.order(gpu, task, process, order);
                }
                None => work.draining = None,
            }
        }
        if work.has_commands {
            let Some(command) = self.gpus[gpu].scheduler.poll_command() else {
                self.gpus[gpu].work.has_commands = false;
                return None;
            };
            if let Some(task) = self.carry_out(gpu, &command) {
                self.gpus[gpu].work.drain(task);
            }
        } else if let Some(&task) = work.dirty.last() {
            if self.tasks.group(task).is_some_and(ProcessGroup::step) {
                work.draining = Some(task);
            } else {
                work.dirty.pop();
                self.set_group_timer(gpu, task);
                self.note_need(gpu, task);
            }
        } else if let Some((work, result)) = work.current.take() {
            self.conclude(gpu, work, result);
        } else if let Some(work) = work.queue.pop_front() {
            self.begin(gpu, work);
        }
        None
    }

    /// What a group says to its scheduler.
    fn tell_of_group(&mut self, gpu: usize, task: TaskId, event: Event) {
        let answers = matches!(event, Event::BudgetSet { .. });
        self.note_change();
        let result = self.gpus[gpu].tell(self.now, event);
        let Err(error) = result else {
            return;
        };
        let Some(registration) = self.tasks.get(task).map(|task| task.registration) else {
            return;
        };
        if answers {
            // The answer was not accepted, so the scheduler would wait for it forever.
            let text = alloc::format!("senseless answer: {error}");
            let line = self.line(Level::Warn, registration, text);
            self.log(line.gpu(gpu));
            self.chore(Chore::RejectAll(registration));
            return;
        }
        match &mut self.gpus[gpu].work.current {
            Some((work, heard)) if work.is_of(registration) => {
                if heard.is_ok() {
                    *heard = Err(error);
                }
            }
            _ => self.log_own_refusal(gpu, &error),
        }
    }

    fn begin(&mut self, gpu: usize, work: Work) {
        let now = self.now;
        let begun = match &work {
            Work::Attach(session) => self.attach(gpu, *session),
            Work::Report(session, report) => self.hear(gpu, *session, report),
            Work::Lose(session, task) => self.tasks.group(*task).map(|group| {
                group.lose(now, session.process);
                (*task, Ok(()))
            }),
            Work::Leave { session, task, .. } => self.tasks.group(*task).map(|group| {
                group.leave(now, session.process);
                (*task, Ok(()))
            }),
            Work::Tick(task) => self.tasks.group(*task).map(|group| {
                group.tick(now);
                (*task, Ok(()))
            }),
            Work::Size(session, question) => {
                self.tell_size(gpu, *session, *question);
                None
            }
        };
        if let Some((task, result)) = begun {
            let list = &mut self.gpus[gpu].work;
            list.current = Some((work, result));
            list.drain(task);
        }
    }

    /// Finishes `work`, all of whose consequences have been carried out.
    fn conclude(&mut self, gpu: usize, work: Work, result: Result<(), EventError>) {
        match work {
            Work::Attach(session) => match result {
                Ok(()) => self.attached(session, gpu),
                Err(error) => self.refuse_attach(gpu, session, &error),
            },
            Work::Report(session, report) => self.judge(gpu, session, &report, result),
            Work::Lose(..) | Work::Tick(_) | Work::Size(..) => {
                if let Err(error) = result {
                    self.log_own_refusal(gpu, &error);
                }
            }
            Work::Leave {
                task, peer, died, ..
            } => {
                if let Err(error) = result {
                    self.log_own_refusal(gpu, &error);
                }
                self.track_dead_process(gpu, task, &peer, died);
            }
        }
    }

    pub(super) fn do_chore(&mut self, chore: Chore) {
        match chore {
            Chore::ProcessGone(registration) => self.process_gone(registration),
            // What the work before has led to comes first: it may end sessions of the same process.
            Chore::Greet(hello) if !self.desk.chores.is_empty() => self.chore(Chore::Greet(hello)),
            Chore::Greet(hello) => self.admit(hello),
            Chore::Reject(session) => self.close_session(session),
            Chore::RejectAll(registration) => self.close_all(registration),
            Chore::Enforce(enforcement) => self.enforce(enforcement),
            Chore::Answer(id, result) => self.answer(id, result),
        }
    }

    /// Logs that a scheduler rejected an event that the daemon itself generated, which is a defect.
    pub(super) fn log_own_refusal(&mut self, gpu: usize, error: &EventError) {
        let text = alloc::format!("the scheduler refuses the daemon's own event: {error}");
        self.log(LogLine::new(Level::Error, text).gpu(gpu));
    }

    fn set_group_timer(&mut self, gpu: usize, task: TaskId) {
        let at = self
            .tasks
            .group(task)
            .and_then(|group| group.poll_timeout());
        self.timers.set(Timer::Group(gpu, task), at);
    }
}
