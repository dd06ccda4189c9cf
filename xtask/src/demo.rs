//! `cargo xtask demo`: builds what the demonstration needs and hands over to it.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::{Workspace, link_simgpu};

/// What is said before the build, which the first time takes longer than the demonstration.
const PLAN: &str = "\
Four programs need 1.9 times the memory of a simulated GPU: first they run bare, then under rtswapd, about a minute.
Before that rtswapd, its agent, the simulated GPU and the programs are built: the first time two minutes on two cores.";

/// Runs the demonstration in the foreground.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    eprintln!("{PLAN}");
    let start = Instant::now();
    let built = workspace.demo(&["rtswap-demo"])?;
    eprintln!("built in {:.0} s\n", start.elapsed().as_secs_f64());
    prepare(&built, options)?.succeed()
}

/// The demonstration among what was built in `built`, ready to run with `options`.
pub(crate) fn prepare(built: &Path, options: &[String]) -> Result<Run> {
    link_simgpu(built)?;
    Ok(Run::new(built.join("rtswap-demo"), Path::new("."))
        .args(&["--bin-dir".as_ref(), built.as_os_str()])
        .args(options))
}
