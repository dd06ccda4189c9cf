//! `cargo xtask demo`: builds what the demonstration needs and hands over to it.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::{Workspace, link_simgpu};

/// Runs the demonstration in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    prepare(&workspace.release(&["rtswap-demo"])?, options)?.succeed()
}

/// The demonstration among what was built in `built`, ready to run with `options`.
pub(crate) fn prepare(built: &Path, options: &[String]) -> Result<Run> {
    link_simgpu(built)?;
    Ok(Run::new(built.join("rtswap-demo"), Path::new("."))
        .args(&["--bin-dir".as_ref(), built.as_os_str()])
        .args(options))
}
