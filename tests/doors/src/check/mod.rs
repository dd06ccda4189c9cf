//! What is done to a probe, and what then counts.

mod gated;
mod hinted;
mod memory;
mod requested;
mod same;

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;

pub(crate) use hinted::hinted;

use crate::guest::Guest;
use crate::stage::Stage;
use crate::table::Probe;

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its memory was swapped out and in and stayed right, its work waited at the gate, and it got
    /// the answers that it gets without rtswap.
    Caught,
    /// Its memory was left alone, and counted in the agent's resident bytes.
    Counted,
    /// It ran as without rtswap, and no agent was active.
    Inert,
    /// What it needs is not on this machine, or it says nothing under the command that it is run under.
    Skipped,
    /// Anything else.
    Missed,
}

/// What a probe needs is not to be had: it is skipped, and says so.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::error::Error for Missing {}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::Counted => "counted",
            Self::Inert => "inert",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
        })
    }
}

/// A check of a probe's own: an error says why it was missed.
pub type Own = fn(&Stage<'_>, &Probe) -> Result<Outcome>;

/// What is done to a probe.
#[derive(Clone, Copy)]
pub enum Check {
    /// At each `ready BYTES` the memory must lie in the arena; all of it is taken away, and comes
    /// back when the probe touches it.
    Swapped,
    /// As [`Self::Swapped`], and the one call that the probe makes before it prints `called` must
    /// wait until its job is granted.
    Gated,
    /// As [`Self::Swapped`], but the memory stays out and no job is asked for until the probe prints
    /// `answered`.
    Answers,
    /// Between `base` and `ready BYTES` the resident bytes grow by that, outside the arena, and
    /// shrink again before `freed`.
    Counted,
    /// As [`Self::Swapped`]; at each `shared BYTES` so many more than at `base` cannot leave. Then all
    /// of it again with everything swapped out and in before each call.
    Requested,
    /// The output is that on the bare driver, although its memory is taken away at each `ready`.
    Same,
    /// The output is that without rtswap, and no agent says Hello although a daemon is there.
    Inert,
    /// What the probe needs besides.
    Own(Own),
}

/// Runs the probe on a stage of its own.
///
/// # Errors
/// Why it was missed.
pub fn run(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let start = || Guest::start(stage, stage.preloaded(probe));
    match probe.check {
        Check::Swapped => memory::swapped(start()?)?,
        Check::Gated => gated::gated(start()?)?,
        Check::Answers => memory::answers(start()?)?,
        Check::Counted => {
            memory::counted(start()?)?;
            return Ok(Outcome::Counted);
        }
        Check::Requested => requested::requested(stage, probe)?,
        Check::Same => same::same(stage, probe, start()?)?,
        Check::Inert => {
            same::inert(stage, probe, start()?)?;
            return Ok(Outcome::Inert);
        }
        Check::Own(own) => return own(stage, probe),
    }
    Ok(Outcome::Caught)
}

/// Waits for the program's good end, after it has printed `ok`.
///
/// # Errors
/// How it ended otherwise.
pub fn good_end(guest: Guest<'_>) -> Result<()> {
    let finished = guest.finish()?;
    let ok = finished.stdout.lines().last() == Some("ok");
    ensure!(
        finished.status.success() && ok,
        "ended with {}: {}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    Ok(())
}

/// The number after `word` in a line that begins with it.
pub(crate) fn bytes_after(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}
