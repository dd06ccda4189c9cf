//! `cargo xtask doors`: every way into the driver tried under the agent, by tests/doors.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::{Workspace, stack_and};

/// Builds what the suite needs and hands over to it.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    let built = if is_under_a_tool(options) {
        // rustix's own system calls read the kernel's page of code, which valgrind does not show.
        let target = workspace.target().join("under");
        workspace
            .cargo(&["build"])
            .args(&stack_and(&["rtswap-doors"]))
            .env("RUSTFLAGS", "--cfg rustix_use_libc")
            .env("CARGO_TARGET_DIR", &target)
            .succeed()?;
        target.join("debug")
    } else {
        workspace.debug()?
    };
    Run::new(built.join("doors"), Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()
}

/// What Debian has of foreign programs that some probes build or load; without it these are skipped.
pub(crate) fn need(root: &Path) -> Result<()> {
    tools::debian(
        &[
            ("javac", "default-jdk-headless"),
            ("musl-gcc", "musl-tools"),
        ],
        root,
    )?;
    tools::debian_packages(&["libjemalloc2", "gcc-multilib"], root)
}

fn is_under_a_tool(options: &[String]) -> bool {
    options.iter().any(|option| option.starts_with("--under"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_tell_what_is_built() {
        let given = |options: &[&str]| options.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(is_under_a_tool(&given(&["--under", "valgrind"])));
        assert!(is_under_a_tool(&given(&["--under=valgrind", "alloc"])));
        assert!(!is_under_a_tool(&given(&["alloc"])));
        assert!(!is_under_a_tool(&given(&["alloc", "--json"])));
    }
}
