//! What the engine wants done, as values, each to be carried out before the next is taken.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::JobSeq;
use rtswap_policy::units::Bytes;

use crate::Uuid;
use crate::error::CallError;
use crate::groups::Order;
use crate::ids::{CallId, ConnectionId, Cookie, RegistrationId};
use crate::saved::Record;

/// One effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Write an order into a GPU's block of an agent's page and ring. `Order::SetBudget` is a
    /// question: answered by `Answer::Held`.
    Order {
        /// The agent.
        connection: ConnectionId,
        /// The index of the GPU.
        gpu: usize,
        /// The order.
        order: Order,
    },
    /// Send a Welcome with a fresh page. A question: answered by `Answer::Sent`.
    Welcome(Box<Welcome>),
    /// Send a refusal and close the connection.
    Refuse {
        /// The connection.
        connection: ConnectionId,
        /// The reason for the agent.
        code: RefusalCode,
        /// The reason for people.
        text: String,
    },
    /// End the connection, but keep page and pidfd: the process may come back.
    Close(ConnectionId),
    /// Drop all that is kept for a connection.
    Forget(ConnectionId),
    /// Send SIGKILL to the process of a connection.
    Kill(ConnectionId),
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
    /// Read NVML often from now on, or as ever.
    HurryNvml(bool),
}

/// A Welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The connection that gets it.
    pub connection: ConnectionId,
    /// The lost connection of the same session, whose page and descriptors are to be dropped once
    /// this is sent.
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
    /// The GPU.
    pub uuid: Uuid,
    /// δ, in bytes.
    pub chunk: Bytes,
    /// What rtswap may hand out there, in bytes.
    pub capacity: Bytes,
    /// The job that was granted by the daemon before and runs.
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
    /// It is done.
    Done,
}

/// An event for all that listen; nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A job ended late.
    DeadlineMissed {
        /// Its registration.
        task: RegistrationId,
        /// Its number.
        job: u64,
        /// By how much it was late, in µs, rounded up.
        lateness_us: u64,
        /// Where its time went.
        cause: String,
    },
    /// A promise was broken.
    Violation {
        /// The registration of the task that broke it.
        task: RegistrationId,
        /// The kind, in one word.
        kind: &'static str,
        /// In words and numbers.
        detail: String,
    },
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its level.
    pub level: Level,
    /// What happened, in words and numbers.
    pub text: String,
    /// The name of the task that it is about.
    pub task: Option<String>,
    /// The process that it is about.
    pub pid: Option<u32>,
    /// The index of the GPU that it is about.
    pub gpu: Option<usize>,
    /// The kind of the violation that it is about, in one word.
    pub kind: Option<&'static str>,
}

/// The weight of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Somebody must act.
    Error,
    /// Somebody should look.
    Warn,
    /// The course of things.
    Info,
}

impl LogLine {
    /// A line about nothing in particular.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self {
            level,
            text: text.into(),
            task: None,
            pid: None,
            gpu: None,
            kind: None,
        }
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
