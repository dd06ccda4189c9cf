//! The driver's own checkpoint of a whole process (CUDA 12.8, `cuCheckpointProcess…`), as a peer.

use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rtswap_conformance::cuda::exported;
use rtswap_conformance::expect;
use rtswap_e2e::Program;

use crate::MIB;
use crate::report::Line;

/// No wait is longer.
const BOUND: Duration = Duration::from_secs(30);

/// Takes a plain holder's memory off the GPU and brings it back. The driver's calls have no bound: whoever starts this
/// process has to set one.
pub(crate) fn take(chunks: u64, chunk_mib: u64) -> Result<Line> {
    ensure!(
        !exported("cuCheckpointProcessCheckpoint").is_null(),
        "this driver has no cuCheckpointProcessCheckpoint"
    );
    expect!(cuInit(0))?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["hold", &chunks.to_string(), &chunk_mib.to_string()])
        .env_remove("LD_PRELOAD");
    let mut program = Program::start(command)?;
    program.wait_for_line("ready", BOUND)?;
    let pid = program.pid().cast_signed();
    let timed = |step: &dyn Fn() -> Result<()>| -> Result<f64> {
        let start = Instant::now();
        step()?;
        Ok(start.elapsed().as_secs_f64())
    };
    let none = ptr::null_mut();
    let lock_s = timed(&|| expect!(cuCheckpointProcessLock(pid, none)))?;
    let checkpoint_s = timed(&|| expect!(cuCheckpointProcessCheckpoint(pid, none)))?;
    let restore_s = timed(&|| expect!(cuCheckpointProcessRestore(pid, none)))?;
    let unlock_s = timed(&|| expect!(cuCheckpointProcessUnlock(pid, none)))?;
    program.say("look\n")?;
    program.wait_for_line("wrong 0", BOUND)?;
    Ok(Line::Checkpoint {
        bytes: chunks * chunk_mib * MIB,
        lock_s,
        checkpoint_s,
        restore_s,
        unlock_s,
    })
}
