//! `cargo xtask wheel` and `cargo xtask python`: the Python package, built and tested as its users
//! get it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::process::Run;
use crate::tools;
use crate::workspace::{Workspace, link_simgpu};

/// Where the package is, and what building and testing it needs of others.
const FOLDER: &str = "python";
const REQUIREMENTS: &str = "python/requirements-dev.txt";

/// Builds the wheel; its path is printed.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let python = python(workspace)?;
    println!("{}", make(workspace, &python)?.display());
    Ok(())
}

/// Checks the package's types, installs its wheel and runs its tests; without Python that is said, and
/// no more.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !tools::exists("python3", workspace.root()) {
        eprintln!("xtask python: SKIPPED, nothing was checked: there is no python3 in the PATH");
        return Ok(());
    }
    let python = python(workspace)?;
    let run = || Run::new(&python, &workspace.root().join(FOLDER));
    let cache = tools::folder(workspace).join("mypy-cache");
    run()
        .args(&["-m", "mypy", "--cache-dir"])
        .args(&[&cache])
        .succeed()?;
    let wheel = make(workspace, &python)?;
    let build = workspace.debug()?;
    let driver = link_simgpu(&build)?;
    run()
        .args(&["-m", "pip", "install", "--quiet", "--no-deps"])
        .args(&["--force-reinstall"])
        .args(&[&wheel])
        .succeed()?;
    // -B and no cache: nothing is left beside the sources. -rs: what is skipped says why.
    run()
        .args(&["-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .env("BUILD", build)
        .env("LD_LIBRARY_PATH", driver)
        .succeed()
}

/// The Python that has what building and testing the package needs.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    tools::environment(workspace, "python-venv", REQUIREMENTS)
}

/// The wheel, made anew in a folder of its own.
fn make(workspace: &Workspace, python: &PathBuf) -> Result<PathBuf> {
    let folder = workspace.target().join("wheel");
    tools::remove(&folder)?;
    Run::new(python, workspace.root())
        .args(&["-m", "build", "--wheel", "--no-isolation", "--outdir"])
        .args(&[&folder])
        .args(&[FOLDER])
        .output()?;
    let made = fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    let [wheel] = made.as_slice() else {
        anyhow::bail!("one wheel was to be built: {made:?}");
    };
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    ensure!(
        name.ends_with("-py3-none-any.whl"),
        "{name} is not for every machine: the package is to be pure"
    );
    Ok(wheel.clone())
}
