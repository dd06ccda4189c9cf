//! Processes that are stopped (SIGSTOP, a debugger) while others wait for the GPU. Nothing but their end
//! frees their memory; so others go on beside them as far as memory goes, and are told what they wait for.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};

use super::Engine;
use super::agenda::{Chore, Enforcement};
use crate::config::OnStopped;
use crate::ids::{ConnectionId, RegistrationId};
use crate::output::{Level, Output};
use crate::sessions::SessionId;

/// How long a process is stopped before it is killed, where the configuration says so.
const KILL_DELAY: Nanos = Nanos(2_000_000_000);

/// Processes of each kind that are looked at for one sample of a GPU.
const INSPECTED: usize = 64;

impl Engine {
    /// Looks at the processes that run or move on a GPU where others wait, and at those that were stopped
    /// when they were looked at last: of many stopped ones at some in turn.
    pub(super) fn inspect(&mut self, gpu: usize) {
        let state = self.gpus[gpu].scheduler.state();
        let others_wait = state.waiting().next().is_some() || !state.gpu().queue.is_empty();
        let (mut active, mut stopped) = (Vec::new(), Vec::new());
        for (id, session) in self.sessions.iter().filter(|(_, it)| it.is_connected) {
            let task = session.devices.get(gpu).and_then(|device| device.task);
            let Some(task) = task.and_then(|task| self.tasks.get(task)) else {
                continue;
            };
            let group = &task.group;
            let is_active = || group.is_active(id.process);
            if session.stopped_since.is_some() {
                stopped.push(session.connection);
            } else if others_wait && is_active() {
                active.push(session.connection);
            }
        }
        stopped.sort_unstable();
        let inspected = &mut self.gpus[gpu].inspected;
        let after = stopped.partition_point(|connection| *connection <= *inspected);
        stopped.rotate_left(after);
        stopped.truncate(INSPECTED);
        if let Some(last) = stopped.last() {
            *inspected = *last;
        }
        active.truncate(INSPECTED);
        for connection in active.into_iter().chain(stopped) {
            self.emit(Output::Inspect(connection));
        }
    }

    /// A process was looked at.
    pub(super) fn inspected(&mut self, connection: ConnectionId, is_stopped: bool) {
        let now = self.now;
        let Some(id) = self.sessions.of_connection(connection) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if !is_stopped {
            if session.stopped_since.take().is_some() {
                self.stopped.remove(&id);
                self.note_change();
            }
            return;
        }
        let is_new = session.stopped_since.is_none();
        let since = *session.stopped_since.get_or_insert(now);
        let pid = session.peer.pid;
        let devices = session.devices.iter().enumerate();
        let tasks = devices.filter_map(|(gpu, device)| Some((gpu, device.task?)));
        let tasks: Vec<_> = tasks.collect();
        self.stopped.insert(id);
        // The seconds that status shows.
        self.note_change();
        if is_new {
            let text = "the process is stopped while others wait for the GPU: others go on beside it as \
                        far as memory goes; continue it (SIGCONT) or end it";
            let line = self.line(Level::Warn, id.registration, text);
            self.log(line.pid(pid));
        }
        let mut others_wait = false;
        for (gpu, task) in tasks {
            let state = self.gpus[gpu].scheduler.state();
            others_wait |=
                state.waiting().any(|other| other != task) || !state.gpu().queue.is_empty();
            if self.stands_still(task) {
                self.tell(gpu, Event::Stopped { task });
            }
        }
        if self.config.settings.on_stopped == OnStopped::Kill
            && others_wait
            && now - since >= KILL_DELAY
        {
            let detail =
                format!("process {pid} is stopped while others wait for the GPU; it is killed");
            self.violated(id.registration, "stopped", detail);
            self.chore(Chore::Enforce(Enforcement::Kill(id)));
        }
    }

    /// Whether all processes of a task that run or move on its GPU are stopped; false where none does.
    fn stands_still(&self, task: TaskId) -> bool {
        let Some(task) = self.tasks.get(task) else {
            return false;
        };
        let sessions = self.sessions.of(task.registration);
        let mut active = sessions
            .filter(|(id, _)| task.group.is_active(id.process))
            .peekable();
        active.peek().is_some() && active.all(|(_, session)| session.stopped_since.is_some())
    }

    /// That a process of a registration is stopped while others wait; none where none is.
    pub(crate) fn standstill(&self, id: RegistrationId) -> Option<String> {
        let mut sessions = self.sessions.of(id);
        let (pid, since) = sessions.find_map(|(_, it)| Some((it.peer.pid, it.stopped_since?)))?;
        let seconds = (self.now - since).0 / 1_000_000_000;
        Some(format!(
            "process {pid} is stopped since {seconds} s while others wait: continue it (SIGCONT) or end it"
        ))
    }

    /// The stopped process that holds most on a GPU: its session and what it holds, in bytes.
    pub(crate) fn largest_stopped(&self, gpu: usize) -> Option<(SessionId, Bytes)> {
        let stopped = self.stopped.iter();
        let stopped = stopped.filter_map(|id| Some((*id, self.sessions.get(*id)?)));
        let held = stopped.filter_map(|(id, session)| {
            let task = self.tasks.get(session.devices.get(gpu)?.task?)?;
            Some((id, task.group.held_by(id.process)))
        });
        held.filter(|(_, held)| *held > Bytes::ZERO)
            .max_by_key(|(_, held)| *held)
    }
}
