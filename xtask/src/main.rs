//! Developer commands of rtswap: `cargo xtask demo | eval | bench | attack | soundness | milp | pure | test | doors | driver | clients |
//! python | wheel | ebpf | deb | apt-repo | gpu-bundle | gpu-kit | system-test | graphs | english | ci`.
//!
//! It only starts programs and reads texts; what the commands do lives in the crates and tests.

mod apt_repo;
mod attack;
mod bench;
mod ci;
mod clients;
mod deb;
mod demo;
mod directions;
mod dist;
mod doors;
mod driver;
mod ebpf;
mod english;
mod eval;
mod gpu_bundle;
mod graphs;
mod house;
mod process;
mod pure;
mod rooms;
mod system;
mod test;
mod theory;
mod tools;
mod wheel;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Developer commands of rtswap.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show four tasks at 1.9 times the GPU's memory, about a minute.
    Demo {
        /// Options of the demonstration: --json, --jobs N, --gpu real.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Compute the paper's tables and figures, ours beside the published numbers.
    Eval {
        /// fig4, fig5, fig6, fig7a, fig7b, fig7c, table2, table4 or all, and options: --test
        /// theorem1|demand|pipelined, --json, --out DIR.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        options: Vec<String>,
    },
    /// Look for deadline misses in admitted task sets.
    Soundness {
        /// Options of the search: --runs N, --test NAME, --refuted, --json and others, see --help.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Compare swap volumes with those that HiGHS finds.
    Milp {
        /// Options of the comparison: --instances N, --seed N, --json.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measure what rtswap costs and how fast it moves memory, about two minutes.
    Bench {
        /// Options of the bench: --json, --robust, --only PART.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Attack the daemon as an unprivileged user would, beside tasks that must not notice; needs root.
    Attack {
        /// Options of the attacks: --json, --list, the beginnings of names.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Link the pure crates without the standard library, which proves that they need none.
    Pure,
    /// Run every test: units, properties, loom models, end to end.
    Test,
    /// Try every way into the driver under the agent, on the simulated GPU.
    Doors {
        /// Options of the suite: --json, --markdown, --under COMMAND, the beginnings of names.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Compare NVIDIA's own driver libraries, without a GPU, with what is hooked, probed and simulated.
    Driver {
        /// Options of the comparison: --json, --offline.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Run NVIDIA's own clients over the simulated driver.
    Clients,
    /// Check the Python package's types and run its tests against its wheel.
    Python,
    /// Build the Python package's wheel, in target/wheel.
    Wheel,
    /// Build the probe programs into ebpf/prebuilt, with tools that it installs in target/tools.
    Ebpf {
        /// Only compare with what is there: byte for byte, or by hashes where a tool cannot be had.
        #[arg(long)]
        check: bool,
    },
    /// Build the Debian packages, in target/deb.
    Deb,
    /// Make a signed apt repository of the packages; the key is yours.
    AptRepo(apt_repo::Options),
    /// Make the folder that tests/gpu is run from on a machine with a GPU, target/gpu-bundle.
    GpuBundle,
    /// Make it and run the kit on the simulated GPU.
    GpuKit,
    /// Build the packages, install them in a booted Debian and use them there; needs root.
    SystemTest {
        /// Write the pictures of the first hour into this folder.
        #[arg(long)]
        screens: Option<PathBuf>,
        /// The Debian that is booted: bookworm (12) or trixie (13).
        #[arg(long, default_value = system::SUITE)]
        suite: String,
    },
    /// Record the graphs that are kept with Debian's PyTorch, compare, and run the recorder's tests; needs root.
    Graphs,
    /// Count what the English of policy/, daemon/ and wire/ must lose; fails where that is too much.
    English {
        /// Name each place.
        #[arg(long)]
        list: bool,
    },
    /// Check all that a change must pass, in the environment of a fresh machine.
    Ci {
        /// Only these steps, named as in the table of a whole run.
        steps: Vec<String>,
    },
    /// Run one step; `ci` starts this.
    #[command(hide = true)]
    CiStep {
        /// Its name.
        name: String,
    },
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let name = match command {
        Command::Demo { .. } => "demo",
        Command::Eval { .. } => "eval",
        Command::Soundness { .. } => "soundness",
        Command::Milp { .. } => "milp",
        Command::Bench { .. } => "bench",
        Command::Attack { .. } => "attack",
        Command::Pure => "pure",
        Command::Test => "test",
        Command::Doors { .. } => "doors",
        Command::Driver { .. } => "driver",
        Command::Clients => "clients",
        Command::Python => "python",
        Command::Wheel => "wheel",
        Command::Ebpf { .. } => "ebpf",
        Command::Deb => "deb",
        Command::AptRepo(_) => "apt-repo",
        Command::GpuBundle => "gpu-bundle",
        Command::GpuKit => "gpu-kit",
        Command::SystemTest { .. } => "system-test",
        Command::Graphs => "graphs",
        Command::English { .. } => "english",
        Command::Ci { .. } | Command::CiStep { .. } => "ci",
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let workspace = Workspace::read()?;
    match command {
        Command::Demo { options } => demo::show(&workspace, &options),
        Command::Eval { options } => eval::show(&workspace, &options),
        Command::Soundness { options } => theory::soundness(&workspace, &options),
        Command::Milp { options } => theory::milp(&workspace, &options),
        Command::Bench { options } => bench::show(&workspace, &options),
        Command::Attack { options } => attack::show(&workspace, &options),
        Command::Pure => pure::check(&workspace),
        Command::Test => test::all(&workspace),
        Command::Doors { options } => doors::show(&workspace, &options),
        Command::Driver { options } => driver::show(&workspace, &options),
        Command::Clients => clients::check(&workspace),
        Command::Python => wheel::check(&workspace),
        Command::Wheel => wheel::build(&workspace),
        Command::Ebpf { check } => ebpf::make(&workspace, check),
        Command::Deb => deb::build(&workspace),
        Command::AptRepo(options) => apt_repo::make(&workspace, &options),
        Command::GpuBundle => gpu_bundle::build(&workspace),
        Command::GpuKit => gpu_bundle::check_kit(&workspace),
        Command::SystemTest { screens, suite } => {
            system::test(&workspace, screens.as_deref(), &suite)
        }
        Command::Graphs => graphs::check(&workspace),
        Command::English { list } => english::check(&workspace, list),
        Command::Ci { steps } => ci::check(&workspace, &steps),
        Command::CiStep { name } => ci::run_step(&workspace, &name),
    }
}
