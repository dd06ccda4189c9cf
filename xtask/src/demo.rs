//! `cargo xtask demo`: builds what the demonstration needs and hands over to it.

use anyhow::Result;

use crate::process::Run;
use crate::workspace::{Workspace, stack_and};

/// Runs the demonstration in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    prepare(workspace, options)?.succeed()
}

/// Builds everything; the demonstration, ready to run with `options`.
pub(crate) fn prepare(workspace: &Workspace, options: &[String]) -> Result<Run> {
    workspace
        .cargo(&["build", "--release"])
        .args(&stack_and(&["rtswap-demo"]))
        .succeed()?;
    workspace.link_simgpu("release")?;
    let binaries = workspace.target().join("release");
    Ok(Run::new(binaries.join("rtswap-demo"), workspace.root())
        .args(&["--bin-dir".as_ref(), binaries.as_os_str()])
        .args(options))
}
