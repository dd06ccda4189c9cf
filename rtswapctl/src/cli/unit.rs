//! The options of `attach` and `detach`.

use std::path::PathBuf;

use clap::Args;

use super::Declaration;

/// Which service gets the agent, and what its task declares.
#[derive(Debug, Args)]
pub struct AttachOptions {
    /// The service, such as ollama, llama@chat.service or, for all instances, llama@.service
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// A service of your own manager, as systemctl --user has it, in the place of a system service
    #[arg(long)]
    pub user: bool,
    /// The name of the task that all processes of the service are [default: the service's]
    #[arg(long)]
    pub name: Option<String>,
    /// Make each process a best-effort task by itself, for a server that starts one for each model
    #[arg(long)]
    pub per_process: bool,
    /// What the task declares
    #[command(flatten)]
    pub declaration: Declaration,
    /// The agent's library [default: beside rtswapctl, else the system's]
    #[arg(long, env = "RTSWAP_AGENT", value_name = "FILE")]
    pub agent: Option<PathBuf>,
}

/// Which service loses the agent.
#[derive(Debug, Args)]
pub struct DetachOptions {
    /// The service, by the name that attach printed
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// A service of your own manager, as systemctl --user has it
    #[arg(long)]
    pub user: bool,
}
