//! Inputs of the engine: all that happens outside, as values.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

pub use rtswap_policy::scheduler::{
    BudgetRequestSeq, Direction, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos};

use crate::Uuid;
use crate::config::{Calibration, Config};
use crate::ids::{CallId, Claimant, ConnectionId, Cookie, RegistrationId};
use crate::registry::TaskOptions;
use crate::rules::{Key, RuleSet, Rules, Scope};
use crate::sample::{CgroupSample, HostSample, ProbeSample, Sample};
use crate::saved::Saved;

/// Something that happened outside the engine.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Input {
    /// The daemon starts. This is the first input, and it comes once.
    Start(Box<Start>),
    /// An agent said Hello.
    Hello(Box<Hello>),
    /// In the block of GPU `gpu` (an index) on the page of `connection`, a field that the agent writes
    /// has changed, or the agent rang for the first time. `block` has all its fields, read at once.
    /// `rang` says whether the agent has rung since its Welcome: only then is a page complete that an
    /// agent restores after a daemon's restart.
    Block {
        connection: ConnectionId,
        gpu: usize,
        block: Block,
        rang: bool,
    },
    /// The connection ended. Its process may live on.
    Disconnected(ConnectionId),
    /// The process of a connection, or one that is awaited, ended: the only proof of death there is.
    ProcessEnded(ConnectionId),
    /// Whether the process of a connection is stopped (SIGSTOP, a debugger), as
    /// [`Output::Inspect`](crate::Output::Inspect) asked.
    Inspected {
        connection: ConnectionId,
        is_stopped: bool,
    },
    /// The holder of a lease closed it.
    LeaseEnded(RegistrationId),
    /// A user or the administrator makes a call. The engine answers by [`Output::Answer`](crate::Output::Answer).
    Call(CallId, Box<Call>),
    /// NVML was read. The blocks of all agents were read just before.
    Nvml(Sample),
    /// The memory of the machine was looked at.
    Host(HostSample),
    /// The probes' counters were read. The blocks of all agents were read just before.
    Probes(ProbeSample),
    /// The time that [`Engine::poll_timeout`](crate::Engine::poll_timeout) returned has come. A timer
    /// that comes early does no harm.
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
    /// To [`Output::Welcome`](crate::Output::Welcome): whether it was sent, and the agent is watched.
    Sent(bool),
    /// To [`Output::Record`](crate::Output::Record): whether it was kept.
    Kept(bool),
}

/// What a daemon knows when it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What the previous daemon saved, without the registrations of processes that are gone.
    pub saved: Saved,
    /// The saved sessions with a living process: the number under which the shell watches the process,
    /// and the index in `saved.sessions`.
    pub awaited: Vec<(ConnectionId, usize)>,
    /// The administrator's registrations.
    pub tasks: Vec<TaskFile>,
    /// The rules that were set since the previous daemon read its files.
    pub run_time_rules: RuleSet,
    /// What was measured on GPUs, as the previous daemon kept it.
    pub calibrations: Vec<StoredCalibration>,
    /// The first sample of NVML.
    pub nvml: Sample,
}

/// What is kept of the calibrations of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredCalibration {
    /// The GPU.
    pub gpu: Uuid,
    /// The one that counts.
    pub in_effect: Option<Calibration>,
    /// A later one that waits until nothing rests on that.
    pub next: Option<Calibration>,
}

/// A registration out of a file in `tasks.d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// The user id; processes of this user may claim the registration.
    pub uid: u32,
    /// What the file says.
    pub options: TaskOptions,
}

/// The process at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id in the daemon's PID namespace.
    pub pid: u32,
    /// The id of its user.
    pub uid: u32,
    /// Its short name, fit to be a task's.
    pub comm: String,
    /// When it started, in clock ticks since boot: with its id, its identity until the next boot.
    pub start_ticks: u64,
    /// The container or unit of a process of root.
    pub unit: Option<String>,
}

/// The first message of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The connection that it came over.
    pub connection: ConnectionId,
    /// The process that sent it.
    pub peer: Peer,
    /// The task that it claims; a task of its own where it names none.
    pub name: Option<String>,
    /// The session that it wants to resume: registration and cookie.
    pub resumes: Option<(RegistrationId, Cookie)>,
    /// A fresh random number, for a new session.
    pub cookie: Cookie,
    /// The state of each GPU that its process sees.
    pub devices: Vec<DeviceState>,
    /// The cgroups that its process is in, the one around all others first.
    pub cgroups: Vec<CgroupSample>,
}

/// The state of one GPU in a Hello. The agent wrote all numbers, so they may be false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// The GPU; zeros for none.
    pub uuid: [u8; 16],
    /// All its memory, in bytes.
    pub memory: Bytes,
    /// Where the bytes of the process are.
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

/// One GPU's block of a control page: the fields that the agent writes, read at once. They may hold
/// any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its jobs; none before the first.
    pub jobs: Option<Jobs>,
    /// Its last request for more budget: number, and the budget in bytes that it needs in all.
    pub want: Option<(BudgetRequestSeq, Bytes)>,
    /// The last swap operation that ended.
    pub swap: Option<SwapReport>,
    /// Where its bytes are. Read after `swap`, so that it is final if that operation ended.
    pub usage: Usage,
    /// The last request for a backing store that it followed, and what is pinned, in bytes.
    pub backing: (u32, Bytes),
    /// What it keeps resident for others.
    pub kept: Kept,
    /// Its last question for the memory that it may have; 0 before the first.
    pub size_question: u32,
}

/// The jobs of a process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// The last one asked for.
    pub requested: JobSeq,
    /// Whether the program declared that one.
    pub kind: JobKind,
    /// The last one completed.
    pub completed: JobSeq,
}

/// The end of a swap operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// The number of the operation.
    pub op: SwapSeq,
    /// How it ended.
    pub outcome: SwapOutcome,
    /// How long it took by the agent's own clock.
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
    /// The user's id.
    pub uid: u32,
    /// Root or the daemon's own user, or allowed by polkit for this call.
    pub privileged: bool,
}

/// What changes in the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// Whom it is for.
    pub scope: Scope,
    /// The rules that are set.
    pub set: Rules,
    /// Those that were set before and are not any more: the files decide again.
    pub unset: Vec<Key>,
}

/// A call that may change something.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Call {
    /// `Manager1.Register`, or `Manager1.RegisterWithLease` if `lease` is set: then the registration
    /// ends with the lease, which the shell watches. `caller` registers a task with `options`; only
    /// `claimant` may claim it, if there is one.
    Register {
        caller: Caller,
        options: TaskOptions,
        claimant: Option<Claimant>,
        lease: bool,
    },
    /// `Manager1.Unregister`: `caller` ends `registration`.
    Unregister {
        caller: Caller,
        registration: RegistrationId,
    },
    /// `Manager1.Park`: `caller` has the task of `registration` leave its GPUs until it is resumed.
    Park {
        caller: Caller,
        registration: RegistrationId,
    },
    /// `Manager1.Resume`: `caller` has the task of `registration` come back.
    Resume {
        caller: Caller,
        registration: RegistrationId,
    },
    /// `Manager1.SetCalibration`: `caller` says what was measured on `gpu`. Unless it `is_kept`, the call is only
    /// checked: the shell keeps the calibration before it counts.
    Calibrate {
        caller: Caller,
        gpu: Uuid,
        calibration: Calibration,
        is_kept: bool,
    },
    /// `Manager1.SetPolicy`: `caller` changes rules.
    SetPolicy {
        caller: Caller,
        change: PolicyChange,
    },
    /// `Manager1.Reload` or SIGHUP: rtswapd.toml and policy.toml now say `config`, and the files of tasks.d `tasks`.
    Reload {
        config: Config,
        tasks: Vec<TaskFile>,
    },
}
