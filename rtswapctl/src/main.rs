//! The command line of rtswap.
//!
//! Exit codes: 0 ok, 1 no (not schedulable, not found), 2 bad input, 3 no daemon, 4 denied, 5 the
//! output could not be written, 6 warnings of the doctor. `run` becomes the program and ends as that does.

mod agent;
mod calibrate;
mod cdi;
mod color;
mod completion;
mod daemon;
mod doctor;
mod driver;
mod failure;
mod files;
mod graph;
mod lookup;
mod output;
mod park;
mod plan;
mod policy;
mod profile;
mod reload;
mod run;
mod simulate;
mod status;
mod table;
mod tasks;
mod taskset;
mod trial;
mod unit;
mod unregister;
mod version;

use std::process::ExitCode;

use rtswapctl::cli::{self, Cli, Command};

use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::of_process();
    cli.color.choice().write_global();
    let runtime_dir = cli.runtime_dir.as_deref();
    let done = match cli.command {
        Command::Run(options) => run::run(runtime_dir, &options),
        Command::Attach(options) => unit::attach(runtime_dir, &options),
        Command::Detach(options) => unit::detach(&options),
        Command::Cdi(command) => cdi::cdi(runtime_dir, &command),
        Command::Status(options) => status::status(runtime_dir, &options),
        Command::Tasks(options) => tasks::tasks(runtime_dir, &options),
        Command::Unregister(options) => unregister::unregister(runtime_dir, &options),
        Command::Park(options) => park::park(runtime_dir, &options),
        Command::Resume(options) => park::resume(runtime_dir, &options),
        Command::Policy(command) => policy::policy(runtime_dir, &command),
        Command::Reload => reload::reload(runtime_dir),
        Command::Doctor(options) => doctor::doctor(runtime_dir, &options),
        Command::Calibrate(options) => calibrate::calibrate(runtime_dir, &options),
        Command::Profile(options) => profile::profile(runtime_dir, &options),
        Command::Plan(options) => plan::plan(runtime_dir, &options),
        Command::Simulate(options) => simulate::simulate(&options),
        Command::Graph(command) => graph::graph(&command),
        Command::Version(options) => version::version(runtime_dir, &options),
        Command::Completion(options) => completion::completion(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ (Failure::No | Failure::Warned)) => failure.exit_code(),
        Err(failure) => {
            output::note(&failure.to_string());
            failure.exit_code()
        }
    }
}
