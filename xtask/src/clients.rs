//! `cargo xtask clients`: NVIDIA's own clients, and cudarc, over the simulated driver and under the
//! agent, in tests/clients.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::{Workspace, link_simgpu};

/// Where the tests are, and what they need of others.
const FOLDER: &str = "tests/clients";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";

/// Runs them; without Python that is said, and no more.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !tools::exists("python3", workspace.root()) {
        eprintln!("xtask clients: SKIPPED, nothing was checked: there is no python3 in the PATH");
        return Ok(());
    }
    let python = python(workspace)?;
    let build = workspace.debug()?;
    let driver = link_simgpu(&build)?;
    // -B: no compiled files beside the sources.
    Run::new(python, workspace.root())
        .args(&["-B", &format!("{FOLDER}/run.py")])
        .args(&[build])
        .env("LD_LIBRARY_PATH", driver)
        .succeed()
}

/// The Python that has the clients.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    tools::environment(workspace, "clients-venv", REQUIREMENTS)
}
