//! What is under way: the work on each GPU, and what follows once no GPU has any.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rtswap_policy::scheduler::EventError;
use rtswap_policy::task::TaskId;

use crate::error::CallError;
use crate::groups::Report;
use crate::ids::{CallId, RegistrationId};
use crate::input::{Hello, Peer};
use crate::output::Reply;
use crate::sessions::SessionId;

/// One thing that happened to a process group.
#[derive(Debug)]
pub(super) enum Work {
    /// A session joins its task, with what its Hello said.
    Attach(SessionId),
    /// A process reports.
    Report(SessionId, Report),
    /// A session's connection is gone; its process may still be alive.
    Lose(SessionId, TaskId),
    /// A process is gone. `peer` is what it was; `died` is false where it executed another program, which
    /// keeps its number.
    Leave {
        session: SessionId,
        task: TaskId,
        peer: Box<Peer>,
        died: bool,
    },
    /// The group's timer has expired.
    Tick(TaskId),
    /// A process asks by this number how much memory it may have.
    Size(SessionId, u32),
}

/// What follows once no GPU has work.
#[derive(Debug)]
pub(super) enum Chore {
    /// A process of the registration has gone, perhaps its last.
    ProcessGone(RegistrationId),
    /// A Hello waits until what its process was before is gone.
    Greet(Box<Hello>),
    /// A session made an impossible report: close it.
    Reject(SessionId),
    /// The sessions of a task gave an impossible answer: close them.
    RejectAll(RegistrationId),
    Enforce(Enforcement),
    Answer(CallId, Result<Reply, CallError>),
}

#[derive(Debug, Default)]
pub(crate) struct WorkList {
    pub(super) queue: VecDeque<Work>,
    /// What is being worked on, and how the scheduler took what follows from it.
    pub(super) current: Option<(Work, Result<(), EventError>)>,
    /// The task to take the next effects from.
    pub(super) draining: Option<TaskId>,
    /// Tasks that may have more to conclude, the next one last.
    pub(super) dirty: Vec<TaskId>,
    pub(super) has_commands: bool,
}

impl WorkList {
    /// Whether the GPU is quiet.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
            && self.current.is_none()
            && self.draining.is_none()
            && self.dirty.is_empty()
            && !self.has_commands
    }

    /// The scheduler was told something.
    pub(super) fn expect_commands(&mut self) {
        self.has_commands = true;
    }

    /// The effects of a group come next.
    pub(super) fn drain(&mut self, task: TaskId) {
        self.draining = Some(task);
        if !self.dirty.contains(&task) {
            self.dirty.push(task);
        }
    }
}

impl Work {
    /// Whether it comes from a process of that registration.
    pub(super) fn is_of(&self, registration: RegistrationId) -> bool {
        match self {
            Self::Attach(session)
            | Self::Report(session, _)
            | Self::Size(session, _)
            | Self::Lose(session, _)
            | Self::Leave { session, .. } => session.registration == registration,
            Self::Tick(_) => false,
        }
    }
}

/// A measure still to be taken for a violation that has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// All tasks of the registration become best-effort.
    Demote(RegistrationId),
    /// The process of the session gets SIGKILL.
    Kill(SessionId),
}
