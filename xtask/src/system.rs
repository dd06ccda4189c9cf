//! `cargo xtask system-test`: the packages in a booted Debian.

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;
use crate::{deb, tools};

/// The same, where packages can be built; elsewhere it says why not. What root lacks is an error: it could be had.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    let lacking = match deb::need(root) {
        _ if !tools::exists("dpkg-deb", root) => "this system has no dpkg".to_owned(),
        Err(error) if !tools::is_root(root) => error.to_string(),
        Err(error) => return Err(error),
        Ok(()) => return test(workspace),
    };
    eprintln!("SKIPPED the packages and their system test: {lacking}");
    Ok(())
}

/// Builds the packages and tests them. Where no system can be booted the test says why, and that it is skipped.
pub(crate) fn test(workspace: &Workspace) -> Result<()> {
    deb::build(workspace)?;
    let root = workspace.root();
    if tools::is_root(root) {
        tools::debian(&[("mmdebstrap", "mmdebstrap"), ("cc", "gcc")], root)?;
    }
    workspace
        .cargo(&["build", "--package", "rtswap-system"])
        .succeed()?;
    let program = workspace.target().join("debug/rtswap-system-test");
    Run::new(program, root)
        .args(&["--packages"])
        .args(&[deb::folder(workspace)])
        .args(&["--cache"])
        .args(&[tools::folder(workspace).join("system")])
        .succeed()
}
