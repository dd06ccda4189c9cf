//! What may be typed at `rtswapd`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser};
use rtswap_dbus::text::usage_error;

use crate::bus::Bus;

/// Shares GPUs among tasks by deadline, and swaps what does not fit.
#[derive(Debug, Parser)]
#[command(name = "rtswapd", version)]
pub struct Arguments {
    /// The configuration; /etc/rtswap/rtswapd.toml if it is there. tasks.d lies beside it.
    #[arg(long, env = "RTSWAP_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of the sockets and of the state.
    #[arg(
        long,
        env = rtswap_dbus::connect::RUNTIME_DIR_VARIABLE,
        value_name = "DIR",
        default_value = rtswap_dbus::connect::DEFAULT_RUNTIME_DIR
    )]
    pub runtime_dir: PathBuf,
    /// The bus to join beside the control socket: system, session, none or an address.
    #[arg(long, env = "RTSWAP_BUS", value_name = "BUS", default_value = "none")]
    pub bus: Bus,
    /// What to log, as `info` or `rtswapd::dispatch=trace`.
    #[arg(
        long,
        env = "RTSWAP_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log: String,
    /// Asks the CUDA driver which GPUs there are, and ends: the daemon starts itself so.
    #[arg(long, hide = true)]
    pub ask_driver: bool,
    /// Says what the GPU driver says of itself, and ends: `rtswapctl doctor` starts it so.
    #[arg(long, hide = true)]
    pub describe_driver: bool,
    /// Ends with the process that started it: a trial of `rtswapctl` starts its own daemon so.
    #[arg(long, hide = true)]
    pub end_with_parent: bool,
}

impl Arguments {
    /// Reads the command line, or ends the daemon with what is wrong with it. An environment variable that is empty
    /// counts as unset.
    pub fn of_process() -> Self {
        let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
        let set = |argument: clap::Arg| match argument.get_env() {
            Some(name) if is_empty(name) => argument.env(None),
            _ => argument,
        };
        let mut command = Self::command().mut_args(set);
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| end(&error.format(&mut command)))
    }
}

/// Ends the daemon with the help or the version that was asked for, or with what is wrong.
fn end(error: &clap::Error) -> ! {
    let Some(text) = usage_error("rtswapd", &error.render().to_string()) else {
        error.exit()
    };
    // If this cannot be written either, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(error.exit_code())
}
