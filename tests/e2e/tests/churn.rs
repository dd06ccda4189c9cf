//! Programs that allocate and free all the time while their memory is taken away.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, probe, until_judged, wait_until};

const BOUND: Duration = Duration::from_secs(90);
const SECONDS: u32 = 8;

#[test]
fn no_byte_is_lost_and_none_is_kept() -> Result<()> {
    until_judged("programs that allocate and free", churn)
}

fn churn() -> Result<Verdict> {
    // Each of three may hold up to 72 MiB; the GPU has 64.
    let machine = Machine::new(MachineOptions::default())?;
    let mut daemon = machine.daemon()?;
    let probe = probe("churn", &machine.path(""), &machine.driver_dir())?;
    let start = |seed: u32, seconds: u32| {
        let mut command = machine.preloaded(&probe);
        command.args([seed.to_string(), seconds.to_string()]);
        Program::start(command)
    };
    let programs = [start(1, SECONDS)?, start(2, SECONDS)?, start(3, SECONDS)?];
    // Others come and go meanwhile.
    for seed in 10..10 + SECONDS / 2 {
        let report = start(seed, 1)?.finish(BOUND)?.json()?;
        ensure!(report["wrong_buffers"] == 0, "{report}");
    }
    for program in programs {
        let report = program.finish(BOUND)?.json()?;
        ensure!(report["wrong_buffers"] == 0, "{report}");
        ensure!(report["operations"].as_u64() > Some(100), "{report}");
        // One context, counted as 1/64 of the GPU's memory.
        ensure!(
            report["held_bytes"] == machine.memory_bytes() / 64,
            "{report}"
        );
    }
    wait_until("the GPU is empty", BOUND, || {
        machine.used_bytes(0) == Some(0)
    })?;
    ensure!(daemon.is_running(), "the daemon ended: {}", daemon.stderr());
    daemon.judge_warnings()
}
