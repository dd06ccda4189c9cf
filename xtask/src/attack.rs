//! `cargo xtask attack`: the daemon attacked as an unprivileged user would, by tests/attack.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::{Workspace, link_simgpu};

/// Builds what is attacked and hands over to the attacks. A debug build checks all invariants after every event, in a
/// time that grows with the sessions: what is shipped does not, and how late it makes others is what is judged.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    run(&workspace.demo(&["rtswap-attack"])?, options)
}

/// Attacks what was built in `built`.
pub(crate) fn run(built: &Path, options: &[String]) -> Result<()> {
    link_simgpu(built)?;
    Run::new(built.join("rtswap-attack"), Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()
}
