//! `cargo xtask system-test`: the packages in a booted Debian.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;
use crate::{deb, driver, tools};

/// Builds the packages and tests them; the pictures of the first hour go into `screens`, if anywhere. Where no system can be
/// booted the test says why, and that it is skipped.
pub(crate) fn test(workspace: &Workspace, screens: Option<&Path>) -> Result<()> {
    deb::build(workspace)?;
    try_packages(workspace, screens)
}

/// Tests those that were just built, if they could be.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if let Some(why) = deb::lacking(workspace.root())? {
        eprintln!("SKIPPED the packages' system test: {why}");
        return Ok(());
    }
    try_packages(workspace, None)
}

fn try_packages(workspace: &Workspace, screens: Option<&Path>) -> Result<()> {
    let root = workspace.root();
    if tools::is_root(root) {
        need(root)?;
    }
    let program = workspace.debug()?.join("rtswap-system-test");
    let screens = screens.map_or_else(Vec::new, |folder| vec![Path::new("--screens"), folder]);
    Run::new(program, root)
        .args(&["--packages"])
        .args(&[deb::folder(workspace)])
        .args(&["--cache"])
        .args(&[tools::folder(workspace).join("system")])
        .args(&["--driver"])
        .args(&[driver::folder(workspace)])
        .args(&screens)
        .succeed()
}

/// What Debian has for it, installed where it is missing and that may be done.
pub(crate) fn need(root: &Path) -> Result<()> {
    tools::debian(&[("mmdebstrap", "mmdebstrap"), ("cc", "gcc")], root)
}
