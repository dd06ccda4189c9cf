//! Probes that do something while a thread of theirs waits at the gate, or is in the driver.

use anyhow::{Context, Result, bail, ensure};
use rtswap_e2e::wait_until;

use super::driver::put_before;
use super::run::works;
use crate::check::{Outcome, bytes_after, good_end};
use crate::guest::Guest;
use crate::stage::{BOUND, Stage};
use crate::table::Probe;

/// At `held BYTES` the memory is taken away. Once a thread of the probe waits at the gate it is told to
/// go on a second time; the grant comes after its next line.
pub(super) fn held(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let mut guest = Guest::start(stage, stage.preloaded(probe))?;
    let mut times = 0;
    while let Some(line) = guest.line()? {
        if bytes_after(&line, "held").is_some() {
            guest.swap_out()?;
            guest.go();
            guest.asked().context("no thread waits at the gate")?;
            guest.go();
            wait_until("its next line", BOUND, || guest.unread().is_some())?;
            let line = guest.line()?;
            ensure!(line.as_deref() == Some("cancelled"), "it says: {line:?}");
            times += 1;
        } else if bytes_after(&line, "ready").is_some() {
            guest.swap_out()?;
            guest.go();
        } else if line != "ok" {
            bail!("it says: {line}");
        }
    }
    ensure!(times > 0, "it held nothing");
    good_end(guest)?;
    Ok(Outcome::Caught)
}

/// A driver in which the probe's threads block and are cancelled.
pub(super) fn in_driver(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    put_before(stage, "life_driver")?;
    works(stage, probe)
}

/// A driver that tells the probe of each call, in the thread that makes it.
pub(super) fn subscribed(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    put_before(stage, "life_subscribed")?;
    works(stage, probe)
}
