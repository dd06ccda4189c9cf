//! `cargo xtask bench`: builds what is measured and hands over to tests/bench.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// Measures in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    measure(&workspace.release(&["rtswap-bench"])?, options)
}

/// Measures what was built in `built`.
pub(crate) fn measure(built: &Path, options: &[String]) -> Result<()> {
    Run::new(built.join("rtswap-bench"), Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()
}
