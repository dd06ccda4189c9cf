//! The options of `cdi`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is done for containers.
#[derive(Debug, Subcommand)]
pub enum CdiCommand {
    /// Describe the agent as a device for containers: --device rtswap.org/agent=all
    Generate(CdiGenerateOptions),
}

/// Which agent, and where its description goes.
#[derive(Debug, Args)]
pub struct CdiGenerateOptions {
    /// Write it to FILE, such as /etc/cdi/rtswap.json, in the place of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The agent's library [default: beside rtswapctl, else the system's]
    #[arg(long, env = "RTSWAP_AGENT", value_name = "FILE")]
    pub agent: Option<PathBuf>,
}
