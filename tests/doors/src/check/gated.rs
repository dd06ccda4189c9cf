//! GPU work that must wait at the closed gate.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::{bytes_after, good_end, memory::take_away};
use crate::guest::Guest;

/// How long a call that asked for its job is watched: one that waits is still waiting.
const WATCHED: Duration = Duration::from_millis(15);

/// At each `ready BYTES` takes the memory away, and holds the next call back.
pub(super) fn gated(mut guest: Guest<'_>) -> Result<()> {
    let mut calls = 0;
    while let Some(line) = guest.line()? {
        if let Some(bytes) = bytes_after(&line, "ready") {
            take_away(&mut guest, bytes)?;
            guest.go();
            hold_back(&mut guest)?;
            calls += 1;
        } else if line != "ok" {
            bail!("it says: {line}");
        }
    }
    ensure!(
        calls > 0,
        "it was never ready: {}",
        guest.program().stderr()
    );
    good_end(guest)
}

fn hold_back(guest: &mut Guest<'_>) -> Result<()> {
    guest.asked()?;
    std::thread::sleep(WATCHED);
    if let Some(line) = guest.unread() {
        bail!("the call did not wait for its job: {line}");
    }
    // From here on its job is granted, once its memory is back.
    let Some(line) = guest.line()? else {
        bail!("it ended within the call: {}", guest.program().stderr());
    };
    ensure!(line == "called", "it says: {line}");
    Ok(())
}
