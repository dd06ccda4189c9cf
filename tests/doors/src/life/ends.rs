//! Ends: by exit, by signals, while a swap is under way, and of a parent whose child lives on.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{MachineOptions, wait_until};
use rtswap_wire::page::Direction;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::driver::put_before;
use super::run::same_end;
use crate::check::Outcome;
use crate::guest::Guest;
use crate::stage::{BOUND, CHUNK, MEMORY_MIB, Stage};
use crate::table::Probe;

/// Slow enough to end in the middle of: 40 MiB take 0.3 s.
const SLOW_GIB_PER_S: f64 = 0.125;

/// The process ends in the middle of a swap, as it ends without rtswap, and leaves nothing on the GPU.
/// Its driver is one that notes whether anybody calls it while it is torn down.
pub(super) fn amid_swap(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let stage = stage.with(MachineOptions {
        memory_mib: MEMORY_MIB,
        link_gib_per_s: SLOW_GIB_PER_S,
        chunk_mib: CHUNK >> 20,
        ..MachineOptions::default()
    })?;
    put_before(&stage, "life_driver")?;
    let mut guest = Guest::start(&stage, stage.preloaded(probe))?;
    let line = guest.line()?.context("it ended at once")?;
    ensure!(line == "ends", "it says: {line}");
    guest.idle()?;
    let bytes = guest.usage()?.arena_bytes;
    let pid = guest.program().pid();
    let moved = || {
        let counters = stage.machine.counters(pid);
        counters.map_or(0, |counters| counters.d2h_bytes)
    };
    guest.puppet()?.set_volume(bytes)?;
    let until = Instant::now() + BOUND;
    loop {
        let before = moved();
        guest.puppet()?.begin_swap(Direction::Out, bytes)?;
        wait_until("the swap is under way", BOUND, || moved() > before + CHUNK)?;
        if guest.usage()?.swapped_bytes < bytes {
            break;
        }
        // Over before we looked: nobody holds a swap-out half way, so it is tried again.
        ensure!(Instant::now() < until, "the swaps are over too soon");
        guest.puppet()?.end_swap()?;
        guest.puppet()?.swap(Direction::In, 0)?;
    }
    guest.go();
    // Not served: nobody is granted anything while it ends.
    wait_until("its end", BOUND, || !guest.program().is_running())?;
    let ours = guest.finish()?;
    ensure!(ours.stderr.is_empty(), "it says {:?}", ours.stderr);
    same_end(&ours, &stage.run_bare(probe)?)?;
    wait_until("the GPU is empty", BOUND, || {
        stage.machine.used_bytes(0) == Some(0)
    })?;
    Ok(Outcome::Caught)
}

/// The parent is killed; what it held comes back although its child lives.
pub(super) fn orphan(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let mut guest = Guest::start(stage, stage.preloaded(probe))?;
    let line = guest.line()?.context("it ended at once")?;
    let child = line.strip_prefix("child ").and_then(|pid| pid.parse().ok());
    let child = Pid::from_raw(child.with_context(|| line.clone())?).context("no process")?;
    guest.swap_out()?;
    guest.go();
    let freed = wait_until("the GPU is empty", BOUND, || {
        !guest.program().is_running() && stage.machine.used_bytes(0) == Some(0)
    });
    let lives = test_kill_process(child);
    kill_process(child, Signal::KILL)?;
    freed?;
    lives.context("the child died too")?;
    Ok(Outcome::Caught)
}
