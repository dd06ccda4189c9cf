//! `cargo xtask bench`: builds what is measured and hands over to tests/bench.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::{Workspace, stack_and};

/// Measures in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release"])
        .args(&stack_and(&["rtswap-bench"]))
        .succeed()?;
    let bench = workspace.target().join("release/rtswap-bench");
    Run::new(bench, Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()
}
