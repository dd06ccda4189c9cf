//! What the engine is told: all that happens outside, as values.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

pub use rtswap_policy::scheduler::{
    Direction, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage, WantSeq,
};
use rtswap_policy::units::{Bytes, Nanos};

use crate::config::Config;
use crate::ids::{CallId, Claimant, ConnectionId, Cookie, RegistrationId};
use crate::registry::TaskOptions;
use crate::sample::{ProbeSample, Sample};
use crate::saved::Saved;

/// One thing that happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The daemon starts. The first input, and only that.
    Start(Box<Start>),
    /// An agent said Hello.
    Hello(Box<Hello>),
    /// The agent's fields of one GPU's block are not what they were, or it rang for the first time.
    Block {
        /// The agent.
        connection: ConnectionId,
        /// The index of the GPU, which is that of its block.
        gpu: usize,
        /// All fields, read at once.
        block: Block,
        /// Whether the agent has rung since its Welcome: then a page that an agent restores after a
        /// daemon's restart is complete.
        rang: bool,
    },
    /// The connection ended. Its process may live on.
    Disconnected(ConnectionId),
    /// The process of a connection, or one that is awaited, ended: the only proof of death there is.
    ProcessEnded(ConnectionId),
    /// The holder of a lease closed it.
    LeaseEnded(RegistrationId),
    /// A user or the administrator calls. Answered by [`Output::Answer`](crate::Output::Answer).
    Call(CallId, Box<Call>),
    /// NVML was read. The blocks of all agents were read just before.
    Nvml(Sample),
    /// The probes' counters were read. The blocks of all agents were read just before.
    Probes(ProbeSample),
    /// The time that [`Engine::poll_timeout`](crate::Engine::poll_timeout) names has come. An early
    /// one does no harm.
    Timer,
    /// The answer to a question, by the very next call after it and with the same time.
    Answer(Answer),
}

/// The answers to the outputs that are questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Order::SetBudget`: the budget in bytes that the page holds now. It is more than ordered
    /// where the agent had taken the memory already.
    Held(Bytes),
    /// To [`Output::Welcome`](crate::Output::Welcome): whether it was sent.
    Sent(bool),
    /// To [`Output::Record`](crate::Output::Record): whether it was kept.
    Kept(bool),
}

/// What a daemon knows when it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What the daemon before left. Registrations of a process that is gone are missing.
    pub saved: Saved,
    /// Of its sessions, those whose processes live: the number under which the shell watches each, and
    /// the place in `saved.sessions`.
    pub awaited: Vec<(ConnectionId, usize)>,
    /// The administrator's registrations.
    pub tasks: Vec<TaskFile>,
    /// The first look of NVML.
    pub nvml: Sample,
}

/// A registration out of a file in `tasks.d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// The user whose processes may claim it.
    pub uid: u32,
    /// What the file says.
    pub options: TaskOptions,
}

/// The process at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id in the daemon's PID namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its short name, fit to be a task's.
    pub comm: String,
    /// When it started, in clock ticks since boot: with its id, its identity until the next boot.
    pub start_ticks: u64,
}

/// The first words of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its process.
    pub peer: Peer,
    /// The task that it claims; a task of its own where it names none.
    pub name: Option<String>,
    /// The session that it had: registration and cookie.
    pub resumes: Option<(RegistrationId, Cookie)>,
    /// A fresh random number, for a new session.
    pub cookie: Cookie,
    /// The state of each GPU that its process sees.
    pub devices: Vec<DeviceState>,
}

/// What an agent says of one GPU in its Hello. All numbers are a stranger's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// The GPU; zeros for none.
    pub uuid: [u8; 16],
    /// All its memory, in bytes.
    pub memory: Bytes,
    /// Where its bytes are.
    pub usage: Usage,
    /// Its pinned backing store, in bytes.
    pub backing: Bytes,
    /// The last job that it asked for; 0 for none.
    pub requested: u32,
    /// The last that was granted.
    pub granted: u32,
    /// The last that it completed.
    pub completed: u32,
}

/// One GPU's block of a control page: the fields that its agent writes, read at once. All numbers
/// are a stranger's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its jobs; none before the first.
    pub jobs: Option<Jobs>,
    /// Its last request for more budget: number, and the budget in bytes that it needs in all.
    pub want: Option<(WantSeq, Bytes)>,
    /// The last swap operation that ended.
    pub swap: Option<SwapReport>,
    /// Where its bytes are. Read after `swap`, so that it is final if that operation ended.
    pub usage: Usage,
    /// The last request for a backing store that it followed, and what is pinned, in bytes.
    pub backing: (u32, Bytes),
    /// What it keeps resident for others.
    pub kept: Kept,
}

/// The jobs of a process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// The last one asked for.
    pub requested: JobSeq,
    /// How that came to be.
    pub kind: JobKind,
    /// The last one completed.
    pub completed: JobSeq,
}

/// The end of a swap operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// The operation.
    pub op: SwapSeq,
    /// How it ended.
    pub outcome: SwapOutcome,
    /// The agent's own measure of it.
    pub took: Nanos,
    /// The bytes that were copied over the link.
    pub moved: Bytes,
}

/// Bytes that never leave the GPU because others use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Other processes were given them.
    pub for_processes: Bytes,
    /// Other devices reach them.
    pub for_devices: Bytes,
}

/// The user behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its id.
    pub uid: u32,
    /// Root or the daemon's own user, or allowed by polkit for this call.
    pub privileged: bool,
}

/// A call that may change something.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `Manager1.Register` and `Manager1.RegisterWithLease`.
    Register {
        /// The user.
        caller: Caller,
        /// What the task declares.
        options: TaskOptions,
        /// The only process that may claim it.
        claimant: Option<Claimant>,
        /// Whether it lives as long as a lease, which the shell watches.
        lease: bool,
    },
    /// `Manager1.Unregister`.
    Unregister {
        /// The user.
        caller: Caller,
        /// The registration to end.
        registration: RegistrationId,
    },
    /// `Manager1.Reload` and SIGHUP: what the files say now.
    Reload {
        /// rtswapd.toml.
        config: Config,
        /// tasks.d.
        tasks: Vec<TaskFile>,
    },
}
