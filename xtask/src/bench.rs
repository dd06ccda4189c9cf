//! `cargo xtask bench`: builds what is measured and hands over to tests/bench.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// The packages whose programs and libraries are measured, and the bench itself.
const PACKAGES: [&str; 7] = [
    "rtswapd",
    "rtswapctl",
    "rtswap-cuda",
    "simgpu-cuda",
    "simgpu-nvml",
    "dnn",
    "rtswap-bench",
];

/// Measures in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    let mut build = vec!["build", "--release"];
    build.extend(PACKAGES.iter().flat_map(|package| ["-p", package]));
    workspace.cargo(&build).succeed()?;
    let bench = workspace.target().join("release/rtswap-bench");
    let mut run = Run::new(bench, Path::new(".")).args(options);
    // The simulated device memory is a file: in memory, where there is such a folder.
    if Path::new("/dev/shm").is_dir() {
        run = run.env("TMPDIR", "/dev/shm");
    }
    run.succeed()
}
