//! The rtswap daemon.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use rtswapd::log::Log;
use rtswapd::serve;
use tracing_subscriber::EnvFilter;

/// Shares GPUs among tasks by deadline, and swaps what does not fit.
#[derive(Parser)]
#[command(name = "rtswapd", version)]
struct Arguments {
    /// The configuration; /etc/rtswap/rtswapd.toml if it is there. tasks.d lies beside it.
    #[arg(long, env = "RTSWAP_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of the sockets and of the state.
    #[arg(
        long,
        env = rtswap_dbus::connect::RUNTIME_DIR_VARIABLE,
        value_name = "DIR",
        default_value = rtswap_dbus::connect::DEFAULT_RUNTIME_DIR
    )]
    runtime_dir: PathBuf,
    /// The bus to join beside the control socket.
    #[arg(long, value_enum, default_value_t = Bus::None)]
    bus: Bus,
    /// What to log, as `info` or `rtswapd::dispatch=trace`.
    #[arg(
        long,
        env = "RTSWAP_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    log: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bus {
    None,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Bus::None = arguments.bus;
    let filter = match arguments.log.parse::<EnvFilter>() {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("rtswapd: --log {:?}: {error}", arguments.log);
            return ExitCode::from(BAD_INPUT);
        }
    };
    let log = match Log::start(std::io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("rtswapd: cannot start the thread that logs: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let options = serve::Options {
        config: arguments.config,
        runtime_dir: arguments.runtime_dir,
    };
    let end = serve::run(&options);
    log.flush();
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rtswapd: {error:#}");
            let bad_input = error.is::<rtswapd::config::ConfigError>();
            ExitCode::from(if bad_input { BAD_INPUT } else { FAILED })
        }
    }
}

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
