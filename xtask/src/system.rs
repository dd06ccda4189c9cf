//! `cargo xtask system-test`: the packages in a booted Debian.

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;
use crate::{deb, tools};

/// The same, where packages can be built.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if tools::exists("dpkg-deb", workspace.root()) {
        return test(workspace);
    }
    eprintln!("SKIPPED the packages and their system test: this system has no dpkg");
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
