//! `cargo xtask soundness` and `cargo xtask milp`: the searches that the theory must withstand, by
//! tests/soundness and tests/milp.

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::Workspace;

/// What a check of every change has time for. A busy machine times the two unfairly.
const RUNS: [&str; 2] = ["--runs", "20000"];
const INSTANCES: [&str; 4] = ["--instances", "1500", "--faster", "100"];

const MILP: &str = "tests/milp/Cargo.toml";

/// Builds the search for deadline misses and hands over to it.
pub(crate) fn soundness(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-soundness"])
        .succeed()?;
    let program = workspace.target().join("release/soundness");
    Run::new(program, workspace.root()).args(options).succeed()
}

/// Builds HiGHS and the comparison with it, which takes minutes, and hands over to it.
pub(crate) fn milp(workspace: &Workspace, options: &[String]) -> Result<()> {
    needs(workspace)?;
    let run = [
        "run",
        "--locked",
        "--release",
        "--manifest-path",
        MILP,
        "--",
    ];
    cargo(workspace, &run).args(options).succeed()
}

/// Sound rules miss nothing, refuted ones do.
pub(crate) fn check_soundness(workspace: &Workspace) -> Result<()> {
    soundness(workspace, &RUNS.map(String::from))?;
    soundness(workspace, &["--refuted".into()])
}

/// The volumes are those that HiGHS finds. What is not in the workspace is formatted and linted here.
pub(crate) fn check_milp(workspace: &Workspace) -> Result<()> {
    match needs(workspace) {
        Err(error) if !tools::is_root(workspace.root()) => {
            eprintln!("skipped, since only root may install what it needs: {error:#}");
            return Ok(());
        }
        had => had?,
    }
    let format = ["fmt", "--check", "--manifest-path", MILP];
    cargo(workspace, &format).succeed()?;
    // With the profile of the run, so that HiGHS is built once.
    let clippy = ["clippy", "--locked", "--release", "--manifest-path", MILP];
    cargo(workspace, &clippy)
        .args(&["--", "-D", "warnings"])
        .succeed()?;
    milp(workspace, &INSTANCES.map(String::from))
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Run {
    let run = workspace.cargo(arguments);
    run.env("CARGO_TARGET_DIR", workspace.target().join("milp"))
}

/// HiGHS is C++ with CMake, and its binding reads its headers with libclang.
fn needs(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    tools::debian(&[("cmake", "cmake"), ("c++", "g++")], root)?;
    let find = "ls /usr/lib/llvm-*/lib/libclang*.so* || ls \"$LIBCLANG_PATH\"/libclang*.so*";
    if Run::new("sh", root).args(&["-c", find]).succeeds_quietly() {
        return Ok(());
    }
    tools::install(&["libclang-dev"], root)
}
