//! `cargo xtask graphs`: the graphs of tests/eval/graphs, recorded again with Debian's PyTorch.

use anyhow::Result;

use crate::process::Run;
use crate::tools;
use crate::workspace::Workspace;

/// Records and compares them, and runs the recorder's tests. Where there can be no root file system with PyTorch the program says
/// why, and that it is skipped.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    if tools::is_root(root) && tools::exists("apt-get", root) {
        tools::debian(&[("mmdebstrap", "mmdebstrap")], root)?;
    }
    let program = workspace.debug()?.join("rtswap-graph-test");
    Run::new(program, root)
        .args(&["--repository"])
        .args(&[root])
        .args(&["--cache"])
        .args(&[tools::folder(workspace).join("graphs")])
        .succeed()
}
