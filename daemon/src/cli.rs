//! What may be typed at `rtswapd`.

use std::path::PathBuf;

use clap::Parser;

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
}
