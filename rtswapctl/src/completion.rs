//! `rtswapctl completion`: what a shell needs to complete the command line.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionOptions};
use crate::failure::Failure;
use crate::output;

/// Prints the completion script of one shell.
pub(crate) fn completion(options: &CompletionOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "rtswapctl", &mut script);
    output::script(&script)
}
