//! Memory: in the arena and swapped, or left alone and counted.

use anyhow::{Context, Result, bail, ensure};

use super::{bytes_after, good_end};
use crate::guest::Guest;
use crate::stage::CHUNK;

/// Takes the memory away at each `ready`.
pub(super) fn swapped(mut guest: Guest<'_>) -> Result<()> {
    let mut times = 0;
    while let Some(line) = guest.line()? {
        if let Some(bytes) = bytes_after(&line, "ready") {
            take_away(&mut guest, bytes)?;
            times += 1;
            guest.go();
        } else if line != "ok" {
            bail!("it says: {line}");
        }
    }
    ensure!(
        times > 0,
        "it was never ready: {}",
        guest.program().stderr()
    );
    good_end(guest)
}

/// Takes the memory away, and leaves it there until the probe has its answers.
pub(super) fn answers(mut guest: Guest<'_>) -> Result<()> {
    let mut answered = 0;
    while let Some(line) = guest.line()? {
        if let Some(bytes) = bytes_after(&line, "ready") {
            let out = take_away(&mut guest, bytes)?;
            guest.go();
            let line = unserved_line(&mut guest)?;
            ensure!(line == "answered", "it says: {line}");
            let now = guest.usage()?.swapped_bytes;
            ensure!(now == out, "{now} of {out} bytes are still out");
            ensure!(!guest.asks()?, "the question asked for a job");
            answered += 1;
            guest.go();
        } else if line != "ok" {
            bail!("it says: {line}");
        }
    }
    ensure!(
        answered > 0,
        "it was never ready: {}",
        guest.program().stderr()
    );
    good_end(guest)
}

/// The next line of a program whose agent gets no answers.
fn unserved_line(guest: &mut Guest<'_>) -> Result<String> {
    let mut found = None;
    rtswap_e2e::wait_until("a line", crate::stage::BOUND, || {
        found = guest.unread();
        found.is_some() || guest.asks().unwrap_or(true) || !guest.program().is_running()
    })?;
    if found.is_none() && guest.asks()? {
        bail!("the question asked for a job");
    }
    // Counts it as read; nothing is served, since it is there.
    guest.line()?.context("it ended without an answer")
}

/// Swaps out what a probe says that it holds, which must lie in the arena.
pub(super) fn take_away(guest: &mut Guest<'_>, bytes: u64) -> Result<u64> {
    guest.idle()?;
    let arena = guest.usage()?.arena_bytes;
    ensure!(
        arena >= bytes,
        "{arena} bytes lie in the arena, of {bytes} that it holds"
    );
    guest.swap_out()
}

/// Compares what is counted before, with and after memory that is left alone.
pub(super) fn counted(mut guest: Guest<'_>) -> Result<()> {
    let mut base = None;
    let mut freed = false;
    while let Some(line) = guest.line()? {
        if line == "ok" {
            continue;
        }
        guest.idle()?;
        let usage = guest.usage()?;
        let outside = usage.resident_bytes + usage.swapped_bytes - usage.arena_bytes;
        if line == "base" {
            base = Some(outside);
        } else if let Some(bytes) = bytes_after(&line, "ready") {
            let base = base.context("no base was taken")?;
            let grown = outside.saturating_sub(base);
            ensure!(
                (bytes..=bytes.next_multiple_of(CHUNK)).contains(&grown),
                "{grown} bytes more are counted, for {bytes}"
            );
            freed = false;
        } else if line == "freed" {
            ensure!(
                base == Some(outside),
                "{outside} bytes are counted after the free, {base:?} before the allocation"
            );
            freed = true;
        } else {
            bail!("it says: {line}");
        }
        guest.go();
    }
    ensure!(freed, "it freed nothing: {}", guest.program().stderr());
    good_end(guest)
}
