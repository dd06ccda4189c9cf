//! `cargo xtask pure`: the pure crates linked without an operating system.

use anyhow::Result;

use crate::workspace::Workspace;

/// Builds them as a static library with a panic handler and an allocator of its own. What linked the
/// standard library would be refused by rustc (E0152).
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let package = [
        "rustc",
        "--package",
        "rtswap-purity",
        "--features",
        "bare",
        "--lib",
    ];
    workspace
        .cargo(&package)
        .args(&["--crate-type", "staticlib", "--", "-C", "panic=abort"])
        .succeed()?;
    println!("policy, engine, simulator and planner link without std");
    Ok(())
}
