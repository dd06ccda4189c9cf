//! Memory as frameworks ask for it: it swaps until it is given to others, and is the same under
//! torture.

use anyhow::{Context, Result, ensure};
use rtswap_e2e::tortures;

use super::{bytes_after, good_end, memory};
use crate::guest::Guest;
use crate::stage::Stage;
use crate::table::Probe;

/// Takes the memory away at each `ready`, and counts at each `shared` what stays.
pub(super) fn requested(stage: &Stage<'_>, probe: &Probe) -> Result<()> {
    let mut guest = Guest::start(stage, stage.preloaded(probe))?;
    let (mut base, mut most) = (0, 0);
    while let Some(line) = guest.line()? {
        if line == "base" {
            guest.idle()?;
            base = outside(&mut guest)?;
        } else if let Some(bytes) = bytes_after(&line, "ready") {
            memory::take_away(&mut guest, bytes)?;
            most = most.max(bytes);
        } else if let Some(bytes) = bytes_after(&line, "shared") {
            guest.swap_out()?;
            let now = outside(&mut guest)?;
            let stays = now.checked_sub(base).context("less stays than before")?;
            ensure!(stays == bytes, "{stays} bytes stay, of {bytes} shared");
        } else {
            ensure!(line == "ok", "it says: {line}");
            continue;
        }
        guest.go();
    }
    ensure!(most > 0, "it was never ready: {}", guest.program().stderr());
    good_end(guest)?;
    tortured(stage, probe, most).context("under torture")
}

/// What can never leave, in bytes.
fn outside(guest: &mut Guest<'_>) -> Result<u64> {
    let usage = guest.usage()?;
    Ok(usage.resident_bytes + usage.swapped_bytes - usage.arena_bytes)
}

/// The same with everything swapped out and in before each call of the program.
fn tortured(stage: &Stage<'_>, probe: &Probe, most: u64) -> Result<()> {
    let mut command = stage.preloaded(probe);
    command
        .env("RTSWAP_TORTURE", "every-call")
        .env("RTSWAP_LOG", "debug");
    let mut guest = Guest::start(stage, command)?;
    while let Some(line) = guest.line()? {
        if line != "ok" {
            guest.go();
        }
    }
    let left = tortures(&guest.program().stderr());
    let left = left.into_iter().max().unwrap_or(0);
    ensure!(
        left >= most,
        "no more than {left} of {most} bytes ever left"
    );
    good_end(guest)
}
