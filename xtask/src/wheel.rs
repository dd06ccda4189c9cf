//! `cargo xtask wheel` and `cargo xtask python`: the Python package, built and tested as its users
//! get it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::process::Run;
use crate::tools;
use crate::workspace::{Workspace, link_simgpu, stack_and};

/// Where the package is, and what building and testing it needs of others.
const FOLDER: &str = "python";
const REQUIREMENTS: &str = "python/requirements-dev.txt";

/// Builds the wheel; its path is printed.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let python = tools::environment(workspace, "python-venv", REQUIREMENTS)?;
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
    let python = tools::environment(workspace, "python-venv", REQUIREMENTS)?;
    let run = || Run::new(&python, &workspace.root().join(FOLDER));
    let cache = tools::folder(workspace).join("mypy-cache");
    run()
        .args(&["-m", "mypy", "--cache-dir"])
        .args(&[&cache])
        .succeed()?;
    let wheel = make(workspace, &python)?;
    workspace
        .cargo(&["build"])
        .args(&stack_and(&[]))
        .succeed()?;
    let driver = link_simgpu(&workspace.target().join("debug"))?;
    run()
        .args(&["-m", "pip", "install", "--quiet", "--no-deps"])
        .args(&["--force-reinstall"])
        .args(&[&wheel])
        .succeed()?;
    // -B and no cache: nothing is left beside the sources. -rs: what is skipped says why.
    run()
        .args(&["-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .env("BUILD", workspace.target().join("debug"))
        .env("LD_LIBRARY_PATH", driver)
        .succeed()
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
