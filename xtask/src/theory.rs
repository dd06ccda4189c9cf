//! `cargo xtask soundness` and `cargo xtask milp`: the searches that the theory must withstand, by
//! tests/soundness and tests/milp.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::Workspace;

/// What a check of every change has time for. A busy machine times the two unfairly.
const RUNS: [&str; 2] = ["--runs", "20000"];
const COPIES: [&str; 2] = ["--copies", "4000"];
const INSTANCES: [&str; 4] = ["--instances", "1500", "--faster", "100"];

/// What has HiGHS.
const REQUIREMENTS: &str = "tests/milp/requirements.txt";

/// Builds the search for deadline misses and hands over to it.
pub(crate) fn soundness(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-soundness"])
        .succeed()?;
    search(workspace, &workspace.target().join("release"), options)
}

/// Builds the comparison with HiGHS and hands over to it.
pub(crate) fn milp(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-milp"])
        .succeed()?;
    compare(workspace, &workspace.target().join("release"), options)
}

/// Sound rules miss nothing, refuted ones do, and so do jobs that copy while they run with the execution times of loaded
/// and of idle copy engines; with the scheduler's invariants checked after every event.
pub(crate) fn check_soundness(workspace: &Workspace) -> Result<()> {
    let built = workspace.debug()?;
    search(workspace, &built, &RUNS.map(String::from))?;
    search(workspace, &built, &["--refuted".into()])?;
    search(workspace, &built, &COPIES.map(String::from))?;
    let idle = COPIES.into_iter().chain(["--idle"]).map(String::from);
    search(workspace, &built, &idle.collect::<Vec<_>>())
}

/// The volumes are those that HiGHS finds; without Python that is said, and no more.
pub(crate) fn check_milp(workspace: &Workspace) -> Result<()> {
    if !tools::exists("python3", workspace.root()) {
        eprintln!("xtask milp: SKIPPED, nothing was checked: there is no python3 in the PATH");
        return Ok(());
    }
    compare(workspace, &workspace.debug()?, &INSTANCES.map(String::from))
}

/// The Python that has HiGHS.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    tools::environment(workspace, "milp-venv", REQUIREMENTS)
}

fn search(workspace: &Workspace, built: &Path, options: &[String]) -> Result<()> {
    Run::new(built.join("soundness"), workspace.root())
        .args(options)
        .succeed()
}

fn compare(workspace: &Workspace, built: &Path, options: &[String]) -> Result<()> {
    Run::new(built.join("rtswap-milp"), workspace.root())
        .args(&["--python"])
        .args(&[python(workspace)?])
        .args(options)
        .succeed()
}
