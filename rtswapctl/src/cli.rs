//! What may be typed. `graph` has the options of the commands for dataflow graphs, `unit` those for systemd's units, `cdi`
//! those for containers.

mod cdi;
mod graph;
mod unit;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anstream::ColorChoice;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use rtswap_dbus::Size;
use rtswap_dbus::text::usage_error;
use rtswap_taskset::{Fault, parse_size};

pub use cdi::{CdiCommand, CdiGenerateOptions};
pub use graph::{GraphCommand, GraphInfoOptions, GraphPlanOptions, GraphSimulateOptions, Planner};
pub use unit::{AttachOptions, DetachOptions};

use crate::duration;
use crate::rule::Rule;

/// Run more models than the GPU has memory for, and still meet every deadline.
#[derive(Debug, Parser)]
#[command(name = "rtswapctl", version)]
pub struct Cli {
    /// The daemon's runtime folder [default: by the system bus where it is there, else /run/rtswap]
    #[arg(long, global = true, env = "RTSWAP_RUNTIME_DIR", value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,

    /// Whether what stands out is colored; without, as NO_COLOR and the terminal say
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: Color,

    /// What is to be done
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line, or ends the program with what is wrong with it. An environment variable that is
    /// empty counts as unset.
    pub fn of_process() -> Self {
        let mut command = with_set_variables(Self::command());
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| end(&error.format(&mut command)))
    }
}

/// Ends the program with the help or the version that was asked for, or with what is wrong.
fn end(error: &clap::Error) -> ! {
    let Some(text) = usage_error("rtswapctl", &error.render().to_string()) else {
        error.exit()
    };
    // If this cannot be written either, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(error.exit_code())
}

/// The command without the environment variables that are empty.
fn with_set_variables(command: clap::Command) -> clap::Command {
    let is_empty =
        |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|argument| match argument.get_env() {
            Some(name) if is_empty(name) => argument.env(None),
            _ => argument,
        })
        .mut_subcommands(with_set_variables)
}

/// When output is colored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// In a terminal that shows colors, unless NO_COLOR is set
    #[default]
    Auto,
    /// In files and pipes, too
    Always,
    /// Not at all
    Never,
}

impl Color {
    /// The same for what prints.
    pub fn choice(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
    }
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register a task and become its program, with the agent preloaded
    Run(RunOptions),
    /// Have a systemd service run with the agent from its next start on
    Attach(AttachOptions),
    /// Take back what attach did to a systemd service
    Detach(DetachOptions),
    /// Bring the agent into containers by the Container Device Interface
    #[command(subcommand)]
    Cdi(CdiCommand),
    /// Show the GPUs and what every task does on them, or all that is known of one task
    Status(StatusOptions),
    /// List the registered tasks and what they declared
    Tasks(TasksOptions),
    /// End the registration of a task; its processes go on as best-effort
    Unregister(UnregisterOptions),
    /// Have tasks leave the GPU, their jobs waiting, until they are resumed
    Park(ParkOptions),
    /// Let parked tasks come back to the GPU
    Resume(ParkOptions),
    /// Show or set what users and tasks may have
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Have the daemon read its files again
    Reload,
    /// Find what keeps rtswap from working on this machine, and what mends it
    Doctor(DoctorOptions),
    /// Measure what swapping costs on this machine, and have the daemon use it
    Calibrate(CalibrateOptions),
    /// Measure what a program takes, alone and beside copies, for plan and run
    Profile(ProfileOptions),
    /// Tell whether a task set meets every deadline, and what to swap for it; needs no daemon
    Plan(PlanOptions),
    /// Run a task set on a simulated clock and GPU; needs no daemon
    Simulate(SimulateOptions),
    /// Plan how one model runs in less GPU memory than its tensors take; needs no daemon
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Show the version of this program and of the daemon
    Version(VersionOptions),
    /// Print what a shell needs to complete this command line
    Completion(CompletionOptions),
}

/// What a task declares, and its program.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The task's name [default: the program's file name]
    #[arg(long)]
    pub name: Option<String>,
    /// What the task declares
    #[command(flatten)]
    pub declaration: Declaration,
    /// The agent's library [default: beside rtswapctl, else the system's]
    #[arg(long, env = "RTSWAP_AGENT", value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// The program and its arguments; a -- before them is allowed
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub program: Vec<OsString>,
}

/// What a task declares of itself.
#[derive(Debug, Args)]
pub struct Declaration {
    /// T, the least time between two releases, such as 33ms
    #[arg(long, value_parser = duration::parse)]
    pub period: Option<Duration>,
    /// D, relative to the release [default: the period]
    #[arg(long, value_parser = duration::parse)]
    pub deadline: Option<Duration>,
    /// C, the longest time from grant to completion
    #[arg(long, value_parser = duration::parse)]
    pub wcet: Option<Duration>,
    /// m, all GPU memory of the task, its context included, such as 6.2GiB
    #[arg(long, value_parser = size)]
    pub footprint: Option<Size>,
    /// The part of the footprint that may be swapped
    #[arg(long, value_parser = size)]
    pub swappable: Option<Size>,
    /// Its weight among best-effort tasks, from 1 to 10000; above 100 by the right to register realtime tasks [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub weight: Option<u32>,
    /// How long it keeps its memory on the GPU without a job, such as 1min; best-effort tasks alone, at least 100ms
    /// [default: until others need it]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub idle_after: Option<Duration>,
    /// Index or UUID of the GPU that it lives on
    #[arg(long)]
    pub gpu: Option<String>,
    /// The class [default: realtime with a period, best-effort without]
    #[arg(long)]
    pub class: Option<Class>,
}

/// The class of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// Has a deadline and passes admission
    Realtime,
    /// Shares what is left
    BestEffort,
}

/// What of the status is shown, and how.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// Show all that is known of the tasks of these names
    #[arg(value_name = "TASK")]
    pub names: Vec<String>,
    /// Show one GPU, by its index or UUID, and what is on it
    #[arg(long)]
    pub gpu: Option<String>,
    /// Sort the tasks, and the processes where they have the same column
    #[arg(long, value_enum, value_name = "COLUMN")]
    pub sort: Option<Sort>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print again and again until interrupted; a daemon that restarts is waited for
    #[arg(short, long)]
    pub watch: bool,
    /// The time between two prints of --watch
    #[arg(short = 'n', long, value_parser = interval, default_value = "1s", requires = "watch")]
    pub interval: Duration,
}

/// A column to sort by: names and GPUs from the least, all others from the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The task's name
    Task,
    /// The GPU's index
    Gpu,
    /// Bytes on the GPU
    Resident,
    /// Bytes in the backing store
    Swapped,
    /// Completed jobs
    Jobs,
    /// Jobs that ended late
    Misses,
    /// The 99th percentile of the response times
    P99,
}

/// Which registration ends.
#[derive(Debug, Args)]
pub struct UnregisterOptions {
    /// The task's name
    #[arg(value_name = "TASK")]
    pub name: String,
    /// The GPU of the task, by its index or UUID, where tasks on several have this name
    #[arg(long)]
    pub gpu: Option<String>,
}

/// Which tasks leave the GPU or come back.
#[derive(Debug, Args)]
pub struct ParkOptions {
    /// The tasks' names
    #[arg(value_name = "TASK", required_unless_present = "all")]
    pub names: Vec<String>,
    /// All tasks of yours, or by root those of all users
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Only tasks on this GPU, by its index or UUID
    #[arg(long)]
    pub gpu: Option<String>,
}

/// What is done with the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show the rules, where each is said, and which of them hold
    Get(PolicyGetOptions),
    /// Set rules until the next reload or boot
    Set(PolicySetOptions),
}

/// Which rules are shown, and how.
#[derive(Debug, Args)]
pub struct PolicyGetOptions {
    /// Only those for this user, by name or number, and for everybody
    #[arg(long)]
    pub user: Option<String>,
    /// Only those for this task of the user [default: your own], for the user and for everybody
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which rules are set, and for whom.
#[derive(Debug, Args)]
pub struct PolicySetOptions {
    /// For this user, by name or number [default: everybody]
    #[arg(long)]
    pub user: Option<String>,
    /// For this task of the user [default: your own]
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// class=declared or best-effort, deadline=20ms, weight=300, gpu_memory=8GiB, pinned_memory=4GiB, max_tasks=16,
    /// on_violation=warn, demote or kill; without a value, what was set is taken back
    #[arg(value_name = "RULE=VALUE", required = true, value_parser = Rule::parse)]
    pub rules: Vec<Rule>,
}

/// How the findings are shown.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is measured of a program.
#[derive(Debug, Args)]
pub struct ProfileOptions {
    /// The task's name [default: the program's file name]
    #[arg(long)]
    pub name: Option<String>,
    /// How many jobs each of the two runs has, at least 20; then the program is ended by SIGTERM
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub jobs: usize,
    /// The GPU that is loaded and noted, by its index or UUID; the program sees no other then [default: the first]
    #[arg(long)]
    pub gpu: Option<String>,
    /// How long the program may go without a job before it is given up
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "2min")]
    pub wait: Duration,
    /// The agent's library [default: beside rtswapctl, else the system's]
    #[arg(long, env = "RTSWAP_AGENT", value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; a -- before them is allowed
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub program: Vec<OsString>,
}

/// What is measured, and where it is kept.
#[derive(Debug, Args)]
pub struct CalibrateOptions {
    /// The GPU, by its index or UUID [default: the first]
    #[arg(long)]
    pub gpu: Option<String>,
    /// Write it to a file too, for rtswapctl plan --on; needs no daemon
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// The agent's library [default: beside rtswapctl, else the system's]
    #[arg(long, env = "RTSWAP_AGENT", value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How the versions are shown.
#[derive(Debug, Args)]
pub struct VersionOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which shell completes.
#[derive(Debug, Args)]
pub struct CompletionOptions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// How the tasks are listed.
#[derive(Debug, Args)]
pub struct TasksOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A task set, and how it is to be planned.
#[derive(Debug, Args)]
pub struct TaskSetOptions {
    /// The task set, in TOML or JSON; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Plan for a GPU as it was measured there, by a file of rtswapctl calibrate --export
    #[arg(long, value_name = "CALIBRATION")]
    pub on: Option<PathBuf>,
    /// The admission test
    #[arg(long, value_enum, default_value_t)]
    pub test: Test,
    /// What the swap volumes minimise
    #[arg(long, value_enum, default_value_t)]
    pub objective: Objective,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is planned.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// The task set
    #[command(flatten)]
    pub set: TaskSetOptions,
    /// Instead of FILE and here: tasks by their profiles, each NAME:PERIOD or NAME:PERIOD:DEADLINE, such as yolo:33ms
    #[arg(value_name = "TASK:PERIOD")]
    pub more: Vec<String>,
}

/// What is simulated, and what is written of it.
#[derive(Debug, Args)]
pub struct SimulateOptions {
    /// The task set
    #[command(flatten)]
    pub set: TaskSetOptions,
    /// How long jobs are released
    #[arg(long, value_parser = duration::parse, default_value = "60s")]
    pub duration: Duration,
    /// Draw each task's first release, within its period, from this seed [default: all at once]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "OUT.json")]
    pub trace: Option<PathBuf>,
    /// Draw a timeline
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
}

/// The admission test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// The paper's: Eq. (3) of Theorem 1
    Theorem1,
    /// Processor demand at every deadline; accepts all that theorem1 accepts
    #[default]
    Demand,
    /// As demand, with evictions and swap-ins overlapping chunk by chunk
    Pipelined,
}

/// What the swap volumes minimise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// The time spent swapping
    #[default]
    Time,
    /// The bytes that may leave the GPU, as the paper has it
    Volume,
}

/// A time as it is typed; what is wrong with it, in words.
pub fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<Size, Fault> {
    Ok(Size::Bytes(parse_size(text)?.0))
}

/// A pause that leaves the daemon and the terminal their time.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let interval = duration::parse(text).map_err(|error| error.to_string())?;
    if interval < LEAST {
        return Err(format!("at least {} ms", LEAST.as_millis()));
    }
    Ok(interval)
}
