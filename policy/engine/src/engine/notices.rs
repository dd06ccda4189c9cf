//! What programs are told on their own stderr: why they wait, and why memory was refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::Engine;
use crate::ids::{ConnectionId, RegistrationId};
use crate::output::Output;
use crate::sessions::{Session, SessionId};

/// A task that waits for so long is told why.
const NOTICE_DELAY: Nanos = Nanos(3_000_000_000);

/// The same for a task that waits for memory, once a process of another has been stopped for longer than that. A
/// program that loads waits many times and briefly, for tasks that take turns with it in the memory that
/// is left.
const NOTICE_DELAY_BESIDE_STOPPED: Nanos = Nanos(500_000_000);

/// A process is told why it waits at most this often, and why memory is refused to it at most this often.
const INTERVAL: Nanos = Nanos(10_000_000_000);

/// For so long status shows a refusal.
const SHOWN: Nanos = Nanos(60_000_000_000);

impl Engine {
    /// Why a task that waits may wait long: it is parked, its owner is barred, or a process is stopped. What plans keep
    /// is said by `Planned`.
    pub(crate) fn hindrance(&self, gpu: usize, task: TaskId) -> Option<String> {
        let state = self.gpus[gpu].scheduler.state();
        state.awaited_bytes(task)?;
        let registration = self.tasks.get(task)?.registration;
        if let Some(parked) = self.registry.get(registration)?.parked_text() {
            return Some(parked);
        }
        if let Some(until) = state.barred_until(task) {
            let seconds = (until - self.now).0.div_ceil(1_000_000_000);
            return Some(format!(
                "a process of its owner did not leave the GPU in time, so that the owner gets nothing \
                 beside realtime for {seconds} s"
            ));
        }
        let (id, held) = self.largest_stopped(gpu)?;
        let session = self.sessions.get(id)?;
        let own = registration == id.registration;
        let seconds = (self.now - session.stopped_since?).0 / 1_000_000_000;
        let pid = session.peer.pid;
        (!own).then(|| {
            format!(
                "process {pid} is stopped since {seconds} s and holds {held}, which only its end or \
                 SIGCONT frees"
            )
        })
    }

    /// Tells the processes of tasks that wait for long on a GPU why they do.
    pub(super) fn notify_waiting(&mut self, gpu: usize) {
        let mut told = Vec::new();
        let mut planned = None;
        let now = self.now;
        let stopped = self.largest_stopped(gpu).map(|(id, _)| id).filter(|id| {
            let since = self.sessions.get(*id).and_then(|it| it.stopped_since);
            since.is_some_and(|since| now - since >= NOTICE_DELAY)
        });
        let is_told = |at: Time| now - at < INTERVAL;
        let untold =
            |session: &Session| session.is_connected && !session.notified.is_some_and(is_told);
        for (id, session) in self.sessions.iter().filter(|(_, it)| untold(it)) {
            let task = session.devices.get(gpu).and_then(|device| device.task);
            let Some(task) = task else {
                continue;
            };
            let state = self.gpus[gpu].scheduler.state();
            let is_short = || {
                let budget = state.task(task).map(|status| status.budget);
                state.awaited_bytes(task) > budget
            };
            let is_beside = stopped.is_some_and(|other| other.registration != id.registration);
            let delay = if is_beside && is_short() {
                NOTICE_DELAY_BESIDE_STOPPED
            } else {
                NOTICE_DELAY
            };
            if state.waits_since(task).is_none_or(|at| now - at < delay) {
                continue;
            }
            let planned = planned.get_or_insert_with(|| self.gpus[gpu].planned());
            let why = self.hindrance(gpu, task).or_else(|| planned.starved(task));
            if let Some(why) = why {
                told.push((id, format!("waiting for the GPU: {why}")));
            }
        }
        for (id, text) in told {
            if let Some(session) = self.sessions.get_mut(id) {
                session.notified = Some(now);
            }
            self.notify(id, text);
        }
    }

    /// A process was refused memory: says why, and what would help.
    pub(super) fn notify_refused(&mut self, connection: ConnectionId, gpu: usize) {
        let Some(id) = self.sessions.of_connection(connection) else {
            return;
        };
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let now = self.now;
        let is_told = |(at, _): &(Time, String)| now - *at < INTERVAL;
        if session.refused.as_ref().is_some_and(is_told) {
            return;
        }
        let wanted = session.devices[gpu].block.want.map(|(_, bytes)| bytes);
        let task = session.devices[gpu].task;
        let wanted = wanted.unwrap_or_default();
        let beyond = self.beyond_size(gpu, id, wanted);
        let why = beyond.unwrap_or_else(|| self.occupancy(gpu, task));
        let text = format!("refused {wanted} of GPU memory: {why}");
        if let Some(session) = self.sessions.get_mut(id) {
            session.refused = Some((now, text.clone()));
        }
        self.note_change();
        self.notify(id, text);
    }

    /// Where the memory of a GPU is that a task cannot have, and what would help.
    fn occupancy(&self, gpu: usize, task: Option<TaskId>) -> String {
        if let Some(why) = task.and_then(|task| self.hindrance(gpu, task)) {
            return why;
        }
        let at = &self.gpus[gpu];
        let (capacity, others) = (at.scheduler.state().capacity(), at.account.others());
        let planned = at.planned().kept(task);
        let mut parts = Vec::new();
        let mut add = |bytes: Bytes, what: &str| {
            if bytes > Bytes::ZERO {
                parts.push(format!("{bytes} {what}"));
            }
        };
        add(planned.0, "stay with realtime tasks");
        add(planned.1, "of others cannot be swapped");
        add(others, "are held by processes without rtswap");
        let occupants = if parts.is_empty() {
            String::from("all of it is in use")
        } else {
            parts.join(", ")
        };
        format!(
            "of {} that the GPU has for tasks, {occupants}; ask for less, end a program, or let realtime \
             tasks swap more",
            capacity + others
        )
    }

    /// The last refusal to a process of a registration, if that is not long ago.
    pub(crate) fn refusal(&self, id: RegistrationId) -> Option<String> {
        let sessions = self.sessions.of(id);
        let refused = sessions.filter_map(|(_, session)| session.refused.as_ref());
        let (at, text) = refused.max_by_key(|(at, _)| *at)?;
        (self.now - *at < SHOWN).then(|| text.clone())
    }

    fn notify(&mut self, id: SessionId, text: String) {
        let session = self.sessions.get(id).filter(|it| it.is_connected);
        if let Some(session) = session {
            let connection = session.connection;
            self.emit(Output::Notify { connection, text });
        }
    }
}
