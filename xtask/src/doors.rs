//! `cargo xtask doors`: every way into the driver tried under the agent, by tests/doors.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// What the suite runs, and itself.
const PACKAGES: [&str; 7] = [
    "rtswap-cuda",
    "rtswapd",
    "rtswapctl",
    "simgpu-cuda",
    "simgpu-nvml",
    "dnn",
    "rtswap-doors",
];

/// Builds what the suite needs and hands over to it.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    let packages = PACKAGES.map(|package| ["-p", package]);
    let build = [&["build"], packages.as_flattened()].concat();
    workspace.cargo(&build).succeed()?;
    let doors = workspace.target().join("debug/doors");
    Run::new(doors, Path::new(".")).args(options).succeed()
}
