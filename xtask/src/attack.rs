//! `cargo xtask attack`: the daemon attacked as an unprivileged user would, by tests/attack.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// Builds what is attacked and hands over to the attacks.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    Run::new(workspace.debug()?.join("rtswap-attack"), Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()
}
