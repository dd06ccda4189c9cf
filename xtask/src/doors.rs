//! `cargo xtask doors`: every way into the driver tried under the agent, by tests/doors.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::Run;
use crate::workspace::{Workspace, stack_and};

/// Bytes of the largest agent that may be released.
const MOST_BYTES: u64 = 3 << 20;

/// Builds what the suite needs and hands over to it; a run of the whole suite also looks at the size
/// of the library as it is released.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    let mut build = workspace
        .cargo(&["build"])
        .args(&stack_and(&["rtswap-doors"]));
    let mut target = workspace.target().to_owned();
    if is_under_a_tool(options) {
        // rustix's own system calls read the kernel's page of code, which valgrind does not show.
        target = target.join("under");
        build = build
            .env("RUSTFLAGS", "--cfg rustix_use_libc")
            .env("CARGO_TARGET_DIR", &target);
    }
    build.succeed()?;
    let doors = target.join("debug/doors");
    Run::new(doors, Path::new("."))
        .args(options)
        .files_in_memory()
        .succeed()?;
    if is_whole(options) {
        check_size(workspace)?;
    }
    Ok(())
}

fn is_under_a_tool(options: &[String]) -> bool {
    options.iter().any(|option| option.starts_with("--under"))
}

fn is_whole(options: &[String]) -> bool {
    options.iter().all(|option| option == "--json")
}

fn check_size(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-cuda"])
        .succeed()?;
    let built = workspace.target().join("release/librtswap_cuda.so");
    // As the package has it: what only debuggers read is in a package of its own.
    let library = built.with_extension("stripped.so");
    Run::new("strip", workspace.root())
        .args(&[
            "--strip-unneeded".as_ref(),
            built.as_os_str(),
            "-o".as_ref(),
            library.as_os_str(),
        ])
        .succeed()?;
    let bytes = fs::metadata(&library)
        .with_context(|| library.display().to_string())?
        .len();
    ensure!(
        bytes <= MOST_BYTES,
        "{} has {bytes} bytes, at most {MOST_BYTES}",
        library.display()
    );
    eprintln!("{} has {bytes} bytes", library.display());
    Ok(())
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
        assert!(is_whole(&given(&[])) && is_whole(&given(&["--json"])));
        assert!(!is_whole(&given(&["alloc"])) && !is_whole(&given(&["--markdown"])));
    }
}
