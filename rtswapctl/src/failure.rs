//! How a command fails, and the exit code that says so.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rtswap_dbus::connect::ConnectError;
use rtswap_planner::validator::PlanError;
use rtswap_policy::cost::FitError;
use rtswap_policy::units::Bytes;
use rtswap_simulator::SimError;
use rtswap_taskset::TaskSetError;
use rtswap_taskset::profile::{FoldError, RecordError};
use zbus::fdo;

use crate::trial::TrialError;
use crate::unit::UnitError;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "a realtime task needs {}; measure by rtswapctl profile --name {name} -- {program}, or leave out --period to run it \
        best-effort",
        .absent.join(", ")
    )]
    Missing {
        absent: Vec<&'static str>,
        name: String,
        program: String,
    },
    #[error("{0} has no profile; measure by rtswapctl profile --name {0} -- PROGRAM")]
    NoProfile(String),
    #[error("{text}: {why}")]
    Typed { text: String, why: String },
    #[error(
        "neither XDG_DATA_HOME nor HOME is an absolute path, and profiles are kept there; set one"
    )]
    NoHome,
    #[error(
        "the program ended after {jobs} jobs, and fewer than 20 say nothing; let it run longer"
    )]
    FewJobs { jobs: usize },
    #[error(
        "the program had {jobs} jobs on {gpu} and then none for {} s; profile one that computes without being asked, give its \
        GPU by --gpu, or a longer --wait",
        .wait.as_secs()
    )]
    NoJobs {
        jobs: usize,
        gpu: String,
        wait: Duration,
    },
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{0:?} cannot name a task (1 to 63 of A-Z a-z 0-9 . _ -); give one with --name")]
    Name(String),
    #[error("there is no agent at {}; install rtswap, or name its library with --agent", .0.display())]
    NoAgent(PathBuf),
    #[error("{} is no agent: {why}; name the librtswap_cuda.so of rtswap with --agent, or leave it out", .file.display())]
    NotAgent { file: PathBuf, why: String },
    #[error("the path of the agent, {}, holds a space or a colon, which LD_PRELOAD cannot name; move it", .0.display())]
    AgentPath(PathBuf),
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Refused(#[from] rtswap_dbus::Error),
    #[error("{0}; or keep what is measured in a file alone, by --export FILE")]
    Uncalibrated(ConnectError),
    #[error(
        "{tasks} is on GPU {gpu}, and what it copies would be measured too: park it first, as by rtswapctl park --all"
    )]
    Inhabited { gpu: u32, tasks: String },
    #[error(
        "what was measured is not kept, because {tasks} came to GPU {gpu} meanwhile; run rtswapctl calibrate again"
    )]
    Disturbed { gpu: u32, tasks: String },
    #[error("rtswapd's plan cannot be read: {0}; update rtswapctl")]
    NotPlan(serde_json::Error),
    #[error("the swaps say nothing of their cost: {0}")]
    NoFit(#[from] FitError),
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Unit(#[from] UnitError),
    #[error("user {0:?} is not in /etc/passwd; its number does as well")]
    NoSuchUser(String),
    #[error("{0} is said twice; say it once")]
    SaidTwice(&'static str),
    #[error(
        "rtswapd answers what this rtswapctl does not understand ({0}); install the same version of both"
    )]
    Answer(serde_json::Error),
    #[error("no task of yours is called {0}; rtswapctl tasks lists them")]
    NoSuchTask(String),
    #[error("no GPU is {0}; rtswapctl status lists them")]
    NoSuchGpu(String),
    #[error(
        "several tasks are called {name}: {tasks}; say which by --gpu, or give its path: busctl call \
        org.rtswap /org/rtswap org.rtswap.Manager1 {method} o PATH"
    )]
    Ambiguous {
        name: String,
        tasks: String,
        method: &'static str,
    },
    /// The answer is no, and was printed.
    #[error("no")]
    No,
    /// There are warnings, and they were printed.
    #[error("warnings")]
    Warned,
    #[error("cannot read {file}: {source}")]
    Unreadable {
        file: String,
        source: std::io::Error,
    },
    #[error("{file} is no regular file; name one, or pipe the {what} in and say - for it")]
    NotRegular { file: String, what: &'static str },
    #[error("{file} has more than {} MiB: that is no {what}", .most >> 20)]
    TooLarge {
        file: String,
        most: u64,
        what: &'static str,
    },
    #[error("{file} cannot be unpacked: {source}; compress it by gzip again, or give it as it is")]
    Packed {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}:{line}: not UTF-8: write the file as UTF-8 text")]
    NotText { file: String, line: usize },
    #[error("{file}:{error}")]
    TaskSet {
        file: String,
        error: Box<TaskSetError>,
    },
    #[error("{file}:{error}{}", others(*.more))]
    Graph {
        file: String,
        error: Box<TaskSetError>,
        more: usize,
    },
    #[error("{file}: {error}; make a plan for this graph anew, by rtswapctl graph plan --json")]
    WrongPlan { file: String, error: PlanError },
    #[error(
        "a budget of {budget} bytes is too small for operator {op} ({name}): all its tensors at once take {least} bytes; give at \
        least --budget {}MiB",
        .least.div_ceil(1 << 20)
    )]
    SmallBudget {
        budget: u64,
        op: u32,
        name: String,
        least: u64,
    },
    #[error(
        "the planner {planner} needs {least} bytes of GPU memory for this graph, and the budget is {budget} bytes; give at least \
        --budget {}MiB, or --planner advisor, which comes down to the largest operator",
        .least.div_ceil(1 << 20)
    )]
    PlannerNeeds {
        planner: &'static str,
        budget: u64,
        least: u64,
    },
    #[error(
        "the planner blocks brings parameters in that no operator changes, and this graph has none: it is for inference; \
        use --planner tensile or --planner advisor"
    )]
    NoBlocks,
    #[error(
        "the planner made a plan that does not compute the graph ({0}), which is a bug of rtswap: report it with the graph"
    )]
    BadPlan(PlanError),
    #[error(
        "the planner made no plan, although the budget is large enough, which is a bug of rtswap: report it with the graph"
    )]
    NoPlan,
    #[error(
        "{on}: chunks of {chunk} were measured, and gpu.memory of {file} is {memory}; write a smaller gpu.chunk there, \
        or more memory"
    )]
    ChunkBeyondMemory {
        on: String,
        chunk: Bytes,
        file: String,
        memory: Bytes,
    },
    #[error(
        "--on goes with a file; tasks by their profiles are planned for the GPU of this machine: leave it out"
    )]
    ProfiledElsewhere,
    #[error("cannot simulate {file}: {error}")]
    Simulation { file: String, error: SimError },
    #[error("up to {jobs} jobs, and at most {most} are simulated so; give a shorter --duration")]
    TooManyJobs { jobs: u64, most: u64 },
    #[error("{}s are more than 10000 days; give a shorter --duration", .0.as_secs())]
    TooLong(Duration),
    #[error("{one} and {other} are the same file; give another for one of them")]
    SameFile {
        one: &'static str,
        other: &'static str,
    },
    #[error("the output could not be written: {0}")]
    Output(std::io::Error),
    #[error("cannot write {}: {source}", .file.display())]
    Unwritable {
        file: PathBuf,
        source: std::io::Error,
    },
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// That so many further errors are not told.
fn others(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

impl Failure {
    /// Whether it is what a client meets while the daemon restarts. Where the runtime folder is not there
    /// either, there was none.
    pub(crate) fn is_restart(&self) -> bool {
        use rtswap_dbus::Error;
        match self {
            Self::Connect(ConnectError::NoDaemon { path, cause }) => match cause.kind() {
                ErrorKind::NotFound => path.parent().is_some_and(Path::is_dir),
                kind => kind == ErrorKind::ConnectionRefused,
            },
            Self::Connect(ConnectError::Handshake { .. }) | Self::Refused(Error::Ending(_)) => true,
            Self::Refused(Error::Bus(error)) => match error {
                zbus::Error::InputOutput(_) => true,
                zbus::Error::FDO(error) => matches!(
                    **error,
                    fdo::Error::ServiceUnknown(_)
                        | fdo::Error::NameHasNoOwner(_)
                        | fdo::Error::Disconnected(_)
                ),
                _ => false,
            },
            _ => false,
        }
    }

    /// 1 no, 2 bad input, 3 no daemon, 4 denied, 5 no room for the output, 6 warnings; 127 and 126 as a shell for a program that is not
    /// there or cannot run.
    pub(crate) fn exit_code(&self) -> ExitCode {
        use rtswap_dbus::Error;
        ExitCode::from(match self {
            Self::Output(_) => 5,
            Self::Unwritable { source, .. } if source.kind() == ErrorKind::StorageFull => 5,
            Self::Missing { .. }
            | Self::Typed { .. }
            | Self::NoHome
            | Self::NoSuchUser(_)
            | Self::SaidTwice(_)
            | Self::Name(_)
            | Self::NoAgent(_)
            | Self::AgentPath(_)
            | Self::NotAgent { .. }
            | Self::Unreadable { .. }
            | Self::NotRegular { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::Packed { .. }
            | Self::TaskSet { .. }
            | Self::Graph { .. }
            | Self::WrongPlan { .. }
            | Self::ChunkBeyondMemory { .. }
            | Self::ProfiledElsewhere
            | Self::TooManyJobs { .. }
            | Self::TooLong(_)
            | Self::SameFile { .. }
            | Self::Unwritable { .. }
            | Self::Ambiguous { .. }
            | Self::Simulation {
                error: SimError::Scenario(_),
                ..
            }
            | Self::Refused(Error::InvalidArgument(_)) => 2,
            Self::Start { source, .. } if source.kind() == ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::Connect(_)
            | Self::Uncalibrated(_)
            | Self::Refused(Error::Bus(_) | Error::Ending(_)) => 3,
            Self::Refused(Error::AccessDenied(_)) => 4,
            Self::Warned => 6,
            Self::Unit(error) => error.exit_code(),
            Self::No
            | Self::Answer(_)
            | Self::NoSuchTask(_)
            | Self::NoSuchGpu(_)
            | Self::Inhabited { .. }
            | Self::Disturbed { .. }
            | Self::NoFit(_)
            | Self::NoProfile(_)
            | Self::NotPlan(_)
            | Self::FewJobs { .. }
            | Self::NoJobs { .. }
            | Self::Fold(_)
            | Self::Record(_)
            | Self::Trial(_)
            | Self::Simulation { .. }
            | Self::SmallBudget { .. }
            | Self::PlannerNeeds { .. }
            | Self::NoBlocks
            | Self::BadPlan(_)
            | Self::NoPlan
            | Self::Refused(_)
            | Self::System(_) => 1,
        })
    }
}
