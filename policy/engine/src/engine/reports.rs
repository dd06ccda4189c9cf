//! What agents report, and what is made of reports that cannot be true.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::scheduler::{Attachment, EventError, SwapOutcome};
use rtswap_policy::task::TaskId;

use super::Engine;
use super::agenda::{Chore, Work};
use crate::groups::Report;
use crate::ids::{ConnectionId, RegistrationId};
use crate::input::Block;
use crate::output::{Level, LogLine, News, Output};
use crate::sessions::{EndedSwap, SessionId};
use crate::timers::Timer;

impl Engine {
    pub(super) fn take_block(
        &mut self,
        connection: ConnectionId,
        gpu: usize,
        block: &Block,
        rang: bool,
    ) {
        let Some(id) = self.sessions.of_connection(connection) else {
            return;
        };
        let session = self.sessions.get_mut(id).filter(|it| it.is_connected);
        let Some(session) = session else {
            return;
        };
        let Some(device) = session.devices.get_mut(gpu) else {
            return;
        };
        let resident = block.usage.resident;
        let has_moved = mem::replace(&mut device.block, *block).usage.resident != resident;
        if rang {
            device.reader.record_ring();
        }
        let has_joined = device.task.is_some();
        // An unchanged value is in the account already: after each sample its ranges begin at this value.
        if has_moved {
            let pid = session.peer.pid;
            self.gpus[gpu].account.record_report(pid, resident);
        }
        if has_joined {
            return self.look_again(id, gpu);
        }
        let untouched = Block {
            kept: block.kept,
            ..Block::default()
        };
        if *block != untouched {
            // What the block says of its memory is a report like any other, and waits until it has
            // joined with what its Hello said.
            self.join_task(id, gpu);
        }
    }

    /// Makes a session one of its task on a GPU.
    pub(super) fn join_task(&mut self, id: SessionId, gpu: usize) {
        let task = self.ensure_task(id.registration, gpu);
        if let Some(session) = self.sessions.get_mut(id) {
            session.devices[gpu].task = task;
        }
        if task.is_some() {
            self.queue(gpu, Work::Attach(id));
        }
    }

    /// Reads the last block of a session once more: what was held back or doubted may be due.
    pub(super) fn look_again(&mut self, id: SessionId, gpu: usize) {
        let holds_back = self.recovery.is_holding();
        let Some(session) = self.sessions.get_mut(id).filter(|it| it.is_connected) else {
            return;
        };
        let Some(device) = session.devices.get_mut(gpu) else {
            return;
        };
        if device.task.is_none() {
            return;
        }
        let queue = &mut self.gpus[gpu].work.queue;
        let ended = device.reader.read(&device.block, holds_back, |report| {
            queue.push_back(Work::Report(id, report));
        });
        // Last: what it has taken is heard before.
        if !holds_back && let Some(question) = device.reader.take_question(&device.block) {
            queue.push_back(Work::Size(id, question));
        }
        if let Some(ended) = ended {
            self.account_swap(gpu, id, &ended);
        }
    }

    /// Counts a swap operation, and compares it with what its cost says.
    fn account_swap(&mut self, gpu: usize, id: SessionId, ended: &EndedSwap) {
        let now = self.now;
        if let Some(entry) = self.registry.get_mut(id.registration) {
            let (moved, took) = (ended.report.moved, now - ended.since);
            entry.statistics.copied(ended.direction, moved, took);
        }
        let on = &mut self.gpus[gpu];
        if !on.pace.record(now, ended, &on.config) {
            return;
        }
        let uuid = on.uuid;
        let notes: Vec<_> = on.pace.notes(on.cost_source()).collect();
        let (level, text) = if notes.is_empty() {
            (Level::Info, "swaps take as long as their costs say".into())
        } else {
            (Level::Warn, notes.join("; "))
        };
        // With the task that was last: its agent may have said what is not true.
        let line = self.line(level, id.registration, format!("{uuid}: {text}"));
        self.log(line);
        self.note_change();
    }

    /// Passes a report on to the group of its process. None where it comes too late, or is not believed
    /// yet.
    pub(super) fn hear(
        &mut self,
        gpu: usize,
        id: SessionId,
        report: &Report,
    ) -> Option<(TaskId, Result<(), EventError>)> {
        let now = self.now;
        // What came before may have ended the session.
        let session = self.sessions.get_mut(id).filter(|it| it.is_connected)?;
        let device = &mut session.devices[gpu];
        let task = device.task?;
        match report {
            // An allocation that raced with a cut of the budget is visible on the page until the agent undoes
            // it, and a report may predate the last cut.
            Report::Usage(usage) if usage.resident > device.held => {
                if let Some(again) = device.reader.doubt(now) {
                    self.timers.set(Timer::Doubt(id, gpu), Some(again));
                    return None;
                }
                self.show(gpu, id);
            }
            Report::SwapEnded { outcome, .. } if *outcome == SwapOutcome::OutOfMemory => {
                // Memory is missing: a process unknown to the engine has taken it, and NVML can tell.
                self.hurry_nvml(true);
            }
            Report::BudgetRequested { want, bytes } => {
                if self.beyond_size(gpu, id, *bytes).is_some() {
                    self.tasks
                        .group(task)?
                        .refuse_request(now, id.process, *want);
                    return Some((task, Ok(())));
                }
                self.extend_reservation(gpu, id);
            }
            _ => {}
        }
        let heard = self.tasks.group(task)?.report(now, id.process, *report);
        // At once: the group may get the budget for it, but it was taken without.
        if matches!(report, Report::Usage(_))
            && let Some(detail) = self.unproven(gpu, id)
        {
            self.punish(id.registration, "over-budget", detail, &[id.process]);
        }
        Some((task, heard))
    }

    /// Judges a report by how the group and the scheduler have taken it.
    pub(super) fn judge(
        &mut self,
        gpu: usize,
        id: SessionId,
        report: &Report,
        result: Result<(), EventError>,
    ) {
        let Some(session) = self.sessions.get_mut(id).filter(|it| it.is_connected) else {
            return;
        };
        let pid = session.peer.pid;
        let reader = &mut session.devices[gpu].reader;
        let is_usage = matches!(report, Report::Usage(_));
        // A page is not written at once: only a contradiction that persists is a false report.
        if is_usage
            && result.is_err()
            && let Some(again) = reader.doubt(self.now)
        {
            self.timers.set(Timer::Doubt(id, gpu), Some(again));
            return;
        }
        if is_usage || result.is_err() {
            reader.believe();
            self.timers.set(Timer::Doubt(id, gpu), None);
        }
        let Err(error) = result else {
            return;
        };
        self.count_violation(id.registration);
        let text = format!("senseless report: {error}");
        let line = self.line(Level::Warn, id.registration, text);
        self.log(line.pid(pid).gpu(gpu).kind("senseless-report"));
        self.announce(News::Violation {
            task: id.registration,
            kind: "senseless-report",
            detail: error.to_string(),
        });
        let is_turn = matches!(
            report,
            Report::JobRequested { .. } | Report::JobCompleted { .. } | Report::SwapEnded { .. }
        );
        if is_turn {
            // Agent and engine now disagree on the sequence numbers, so a job or a swap might never end.
            // Closing the connection makes the agent say Hello again, which resynchronizes them.
            self.chore(Chore::Reject(id));
        }
    }

    /// Makes a process one of its task on a GPU, with what its Hello said of it.
    pub(super) fn attach(
        &mut self,
        gpu: usize,
        id: SessionId,
    ) -> Option<(TaskId, Result<(), EventError>)> {
        let now = self.now;
        let device = &self.sessions.get(id)?.devices[gpu];
        let (task, inherited) = (device.task?, device.held);
        let (usage, backing) = (device.reader.usage(), device.reader.backing());
        let open = device.reader.running();
        let group = self.tasks.group(task)?;
        let joined = group.attach(now, id.process, usage, backing, open, inherited);
        // Drained also where it is refused: that ends what the process was in the group before.
        Some((task, joined))
    }

    /// A process is one of its task on a GPU now.
    pub(super) fn attached(&mut self, id: SessionId, gpu: usize) {
        self.bar_newcomer(gpu, id);
        self.show(gpu, id);
        if let Some(text) = self.unproven(gpu, id) {
            // No violation: the daemon before may have been killed before it kept the budget.
            let line = self.line(Level::Warn, id.registration, text);
            self.log(line.gpu(gpu));
        }
        self.look_again(id, gpu);
    }

    /// What a process brings cannot be true: its connection ends. What is counted for it stays so until
    /// it comes back or ends.
    pub(super) fn refuse_attach(&mut self, gpu: usize, id: SessionId, error: &EventError) {
        let now = self.now;
        let text = format!("senseless Hello: {error}");
        let line = self.line(Level::Warn, id.registration, text);
        self.log(line.gpu(gpu));
        let device = self.sessions.get_mut(id).map(|it| &mut it.devices[gpu]);
        if let Some(device) = device
            && let Some(task) = device.task
            && let Some(group) = self.tasks.group(task)
        {
            let gpu = &mut self.gpus[gpu];
            let known = gpu.scheduler.state().task(task);
            let known = known.map_or(Attachment::Absent, |status| status.attachment);
            if !group.refuse(now, id.process, known) {
                device.task = None;
            }
            // What it kept waiting may go on.
            gpu.work.drain(task);
        }
        self.chore(Chore::Reject(id));
    }

    /// Ends the connection of a session. Its memory stays counted while its process lives.
    pub(super) fn close_session(&mut self, id: SessionId) {
        let session = self.sessions.get(id).filter(|it| it.is_connected);
        if let Some(session) = session {
            let connection = session.connection;
            self.emit(Output::Close(connection));
            self.lose_session(id);
        }
    }

    /// As [`Self::close_session`], of all sessions of a registration.
    pub(super) fn close_all(&mut self, registration: RegistrationId) {
        self.count_violation(registration);
        let all: Vec<_> = self.sessions.of(registration).map(|(id, _)| id).collect();
        for id in all {
            self.close_session(id);
        }
    }

    /// The connection of a session is gone. A forked child may have closed it: the process may live on,
    /// and its memory with it.
    pub(super) fn lose_session(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(id).filter(|it| it.is_connected);
        let Some(session) = session else {
            return;
        };
        session.is_connected = false;
        session.stopped_since = None;
        self.stopped.remove(&id);
        self.await_return(id);
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let line = LogLine::new(Level::Info, "the agent's connection ended");
        let line = line.user(Some(session.peer.uid)).pid(session.peer.pid);
        let devices = session.devices.iter().enumerate();
        let tasks = devices.filter_map(|(gpu, device)| Some((gpu, device.task?)));
        let tasks: Vec<_> = tasks.collect();
        self.log(line);
        for (gpu, task) in tasks {
            self.queue(gpu, Work::Lose(id, task));
        }
    }

    pub(super) fn count_violation(&mut self, registration: RegistrationId) {
        if let Some(entry) = self.registry.get_mut(registration) {
            entry.statistics.violations += 1;
        }
    }
}
