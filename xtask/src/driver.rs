//! `cargo xtask driver`: NVIDIA's own driver libraries as witnesses, by tests/driver.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// Builds what the comparison needs and hands over to it.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    let built = workspace.debug()?;
    Run::new(built.join("driver"), Path::new("."))
        .args(&["--folder"])
        .args(&[folder(workspace)])
        .args(options)
        .succeed()
}

/// Where the libraries are.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("driver")
}

/// As a step of `ci`.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    show(workspace, &[])
}
