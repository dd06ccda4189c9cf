//! Outputs of the engine, as values. The shell carries out each one before it polls the next.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::JobSeq;
use rtswap_policy::units::Bytes;

use crate::Uuid;
use crate::error::CallError;
use crate::groups::Order;
use crate::ids::{CallId, ConnectionId, Cookie, RegistrationId};
use crate::rules::RuleSet;
use crate::saved::Record;

/// One effect that the shell carries out.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Output {
    /// Write `order` into the block of GPU `gpu` (an index) on the page of `connection`, and wake its agent.
    /// `Order::SetBudget` is a question, answered by `Answer::Held`.
    Order {
        connection: ConnectionId,
        gpu: usize,
        order: Order,
    },
    /// Answer `question` of the agent of a connection for a size: its process may have `bytes` of GPU `gpu` (an
    /// index) in all.
    Size {
        connection: ConnectionId,
        gpu: usize,
        question: u32,
        bytes: Bytes,
    },
    /// Send a Welcome with a fresh page. A question: answered by `Answer::Sent`.
    Welcome(Box<Welcome>),
    /// Send a refusal and close `connection`. `code` is the reason for the agent, `text` for people.
    Refuse {
        connection: ConnectionId,
        code: RefusalCode,
        text: String,
    },
    /// End the connection, but keep page and pidfd: the process may come back.
    Close(ConnectionId),
    /// Drop all that is kept for a connection.
    Forget(ConnectionId),
    /// Send SIGKILL to the process of a connection.
    Kill(ConnectionId),
    /// Look whether the process of a connection is stopped, and hand that in once the outputs are taken.
    Inspect(ConnectionId),
    /// Have the agent of a connection tell its user `text`.
    Notify {
        connection: ConnectionId,
        text: String,
    },
    /// Answer a call, once what it changed can be seen.
    Answer(CallId, Result<Reply, CallError>),
    /// Append a record to the journal of the state file. A question: answered by `Answer::Kept`.
    Record(Box<Record>),
    /// Write the state file anew, from [`Engine::saved`](crate::Engine::saved), and drop the records
    /// that it holds.
    Checkpoint,
    /// Tell all that listen.
    Announce(Box<News>),
    /// Write a line into the log.
    Log(Box<LogLine>),
    /// The calibration of the GPU that was kept last counts from now on.
    CalibrationUsed(Uuid),
    /// Keep the rules that were set since the files were read, for the next daemon.
    KeepPolicy(RuleSet),
    /// Read NVML often from now on (true), or at the usual interval (false).
    HurryNvml(bool),
}

/// The answer to a Hello that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The connection that gets it.
    pub connection: ConnectionId,
    /// The lost connection of the same session. The shell drops its page and descriptors once the
    /// Welcome is sent.
    pub former: Option<ConnectionId>,
    /// The registration of the session.
    pub registration: RegistrationId,
    /// The secret of the session.
    pub cookie: Cookie,
    /// The daemon's fields of each GPU's block, in the order of the GPUs.
    pub blocks: Vec<BlockSetup>,
}

/// The first values of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSetup {
    /// The UUID of the GPU.
    pub uuid: Uuid,
    /// δ, in bytes.
    pub chunk: Bytes,
    /// What rtswap may hand out there, in bytes.
    pub capacity: Bytes,
    /// The job that the previous daemon granted and that still runs.
    pub granted: Option<JobSeq>,
}

/// The reason of a refusal, for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// It may not have the task that it names.
    Claim,
    /// There is no room now.
    Busy,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A task is registered.
    Registered(RegistrationId),
    /// A calibration is taken; whether it counts at once.
    Calibrated(bool),
    /// It is done.
    Done,
}

/// An event for all that listen; nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum News {
    /// Job `job` of `task` ended `lateness_us` µs (rounded up) after its deadline. `cause` says where its
    /// time went.
    DeadlineMissed {
        task: RegistrationId,
        job: u64,
        lateness_us: u64,
        cause: String,
    },
    /// `task` broke a promise, or one that was given to it was broken. `kind` names the promise in one
    /// word, `detail` says in words and numbers what was observed.
    Violation {
        task: RegistrationId,
        kind: &'static str,
        detail: String,
    },
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How important the line is.
    pub level: Level,
    /// What happened, in words and numbers.
    pub text: String,
    /// The user that caused it; none for the daemon's own. A shell limits how often it writes of
    /// one user.
    pub uid: Option<u32>,
    /// The name of the task that it is about.
    pub task: Option<String>,
    /// The process that it is about.
    pub pid: Option<u32>,
    /// The index of the GPU that it is about.
    pub gpu: Option<usize>,
    /// The kind of the violation that it is about, in one word.
    pub kind: Option<&'static str>,
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work until the administrator acts.
    Error,
    /// Something is not as it should be; the daemon goes on.
    Warn,
    /// A normal event.
    Info,
}

impl News {
    /// The task that they are of.
    pub fn task(&self) -> RegistrationId {
        match self {
            Self::DeadlineMissed { task, .. } | Self::Violation { task, .. } => *task,
        }
    }
}

impl LogLine {
    /// A line about nothing in particular.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self {
            level,
            text: text.into(),
            uid: None,
            task: None,
            pid: None,
            gpu: None,
            kind: None,
        }
    }

    /// About what that user does.
    #[must_use]
    pub fn user(self, uid: Option<u32>) -> Self {
        Self { uid, ..self }
    }

    /// About the task of that name.
    #[must_use]
    pub fn task(self, name: Option<&str>) -> Self {
        let task = name.map(Into::into);
        Self { task, ..self }
    }

    /// About that process.
    #[must_use]
    pub fn pid(self, pid: u32) -> Self {
        let pid = Some(pid);
        Self { pid, ..self }
    }

    /// About the GPU of that index.
    #[must_use]
    pub fn gpu(self, gpu: usize) -> Self {
        let gpu = Some(gpu);
        Self { gpu, ..self }
    }

    /// About a violation of that kind.
    #[must_use]
    pub fn kind(self, kind: &'static str) -> Self {
        let kind = Some(kind);
        Self { kind, ..self }
    }
}
