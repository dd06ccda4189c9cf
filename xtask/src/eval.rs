//! `cargo xtask eval`: the paper's tables and figures, by tests/eval.

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// Builds the evaluation and hands over to it.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-eval"])
        .succeed()?;
    Run::new(workspace.target().join("release/eval"), workspace.root())
        .args(options)
        .succeed()
}
