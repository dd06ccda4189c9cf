//! `cargo xtask test`: every test, with the programs built that the end-to-end tests start.

use anyhow::Result;

use crate::workspace::{Workspace, link_simgpu};

/// Runs all tests.
pub(crate) fn all(workspace: &Workspace) -> Result<()> {
    // First of all, because tests start programs and preload libraries of other packages, which
    // cargo would not build for them.
    workspace
        .cargo(&["build", "--workspace", "--all-targets"])
        .succeed()?;
    link_simgpu(&workspace.target().join("debug"))?;
    if workspace
        .cargo(&["nextest", "--version"])
        .succeeds_quietly()
    {
        workspace
            .cargo(&["nextest", "run", "--workspace"])
            .files_in_memory()
            .succeed()?;
        // nextest leaves these out.
        workspace
            .cargo(&["test", "--workspace", "--doc"])
            .succeed()?;
    } else {
        eprintln!("cargo-nextest is not installed: running plain cargo test");
        workspace
            .cargo(&["test", "--workspace"])
            .files_in_memory()
            .succeed()?;
    }
    // The control page's models: all interleavings, so another build of the same types.
    workspace
        .cargo(&["test", "-p", "rtswap-wire", "--release", "--test", "loom"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", workspace.target().join("loom"))
        .succeed()
}
