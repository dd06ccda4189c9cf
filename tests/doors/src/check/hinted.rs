//! Memory that is copied out only where it changed.

use anyhow::{Context, Result, bail, ensure};

use super::{Outcome, bytes_after, good_end};
use crate::guest::Guest;
use crate::stage::Stage;
use crate::table::Probe;

/// At each `copied BYTES` takes all memory away; the GPU itself says how much of it was copied.
pub(crate) fn hinted(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let mut guest = Guest::start(stage, stage.preloaded(probe))?;
    let mut times = 0;
    while let Some(line) = guest.line()? {
        if line == "ok" {
            continue;
        }
        let Some(expected) = bytes_after(&line, "copied") else {
            bail!("it says: {line}");
        };
        guest.idle()?;
        let pid = guest.program().pid();
        let copied = || {
            let counted = stage.machine.counters(pid);
            counted.map(|it| it.d2h_bytes).context("no such process")
        };
        let before = copied()?;
        guest.swap_out()?;
        let copied = copied()? - before;
        ensure!(
            copied == expected,
            "{copied} bytes were copied out instead of {expected}, the {times} times before well"
        );
        times += 1;
        guest.go();
    }
    ensure!(times > 0, "it said nothing: {}", guest.program().stderr());
    good_end(guest)?;
    Ok(Outcome::Caught)
}
