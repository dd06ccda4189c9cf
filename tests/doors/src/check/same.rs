//! Programs that must do under rtswap what they do without.

use anyhow::{Result, ensure};

use crate::guest::Guest;
use crate::stage::Stage;
use crate::table::Probe;

/// Compares the output with that on the bare driver, with the memory taken away at each `ready`.
pub(super) fn same(stage: &Stage<'_>, probe: &Probe, mut guest: Guest<'_>) -> Result<()> {
    while let Some(line) = guest.line()? {
        if line.starts_with("ready") {
            guest.swap_out()?;
            guest.go();
        }
    }
    ensure!(guest.has_agent(), "no agent came");
    compare(stage, probe, guest)
}

/// Compares the output with that without rtswap, where no agent may come.
pub(super) fn inert(stage: &Stage<'_>, probe: &Probe, mut guest: Guest<'_>) -> Result<()> {
    while let Some(line) = guest.line()? {
        if line.starts_with("ready") {
            guest.go();
        }
    }
    ensure!(!guest.has_agent(), "an agent is active");
    compare(stage, probe, guest)
}

fn compare(stage: &Stage<'_>, probe: &Probe, guest: Guest<'_>) -> Result<()> {
    let ours = guest.finish()?;
    let bare = stage.run_bare(probe)?;
    ensure!(
        bare.status.success() && bare.stdout.lines().last() == Some("ok"),
        "on the bare driver it ended with {}: {}{}",
        bare.status,
        bare.stdout,
        bare.stderr
    );
    ensure!(
        ours.status == bare.status && ours.stdout == bare.stdout,
        "ended with {} and {:?}, on the bare driver with {} and {:?}: {}",
        ours.status,
        ours.stdout,
        bare.status,
        bare.stdout,
        ours.stderr
    );
    Ok(())
}
