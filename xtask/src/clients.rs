//! `cargo xtask clients`: NVIDIA's own clients, and cudarc, over the simulated driver and under the
//! agent, in tests/clients.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::Workspace;

/// Where the tests are, and what they need of others.
const FOLDER: &str = "tests/clients";
const REQUIREMENTS: &str = "requirements.txt";

/// What the tests start and load.
const PACKAGES: [&str; 6] = [
    "rtswap-clients",
    "rtswap-cuda",
    "rtswapd",
    "simgpu-cuda",
    "simgpu-nvml",
    "dnn",
];

/// Runs them; without Python that is said, and no more.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !tools::exists("python3", workspace.root()) {
        eprintln!("xtask clients: SKIPPED, nothing was checked: there is no python3 in the PATH");
        return Ok(());
    }
    let python = environment(workspace)?;
    let packages = PACKAGES.map(|package| ["-p", package]);
    let build = [&["build"], packages.as_flattened()].concat();
    workspace.cargo(&build).succeed()?;
    let driver = workspace.link_simgpu("debug")?;
    let build = workspace.target().join("debug");
    // -B: no compiled files beside the sources.
    Run::new(python, workspace.root())
        .args(&["-B", &format!("{FOLDER}/run.py")])
        .args(&[build])
        .env("LD_LIBRARY_PATH", driver)
        .succeed()
}

/// A virtual environment with what the tests need, made once for each list of that; its Python.
fn environment(workspace: &Workspace) -> Result<PathBuf> {
    let root = tools::folder(workspace).join("clients-venv");
    let python = root.join("bin/python");
    let requirements = workspace.root().join(FOLDER).join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)?;
    // Written last, so that what was interrupted is done again.
    let installed = root.join(REQUIREMENTS);
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    let has_venv = Run::new("python3", workspace.root()).args(&["-c", "import ensurepip, venv"]);
    if !has_venv.succeeds_quietly() {
        tools::install(&["python3-venv"], workspace.root())?;
    }
    Run::new("python3", workspace.root())
        .args(&["-m", "venv", "--clear"])
        .args(&[&root])
        .succeed()?;
    Run::new(&python, workspace.root())
        .args(&["-m", "pip", "install", "--quiet", "--requirement"])
        .args(&[&requirements])
        .succeed()?;
    fs::write(installed, wanted)?;
    Ok(python)
}
