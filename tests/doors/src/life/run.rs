//! One program in surroundings of its own.

use std::process::Command;

use anyhow::{Result, ensure};
use rtswap_e2e::{Finished, Program};

use crate::check::Outcome;
use crate::guest::Guest;
use crate::stage::{BOUND, Stage};
use crate::table::Probe;

/// Whether the program must have an agent, and what it may say on stderr.
#[derive(Clone, Copy)]
pub(super) enum Agent {
    /// It has, and is silent.
    Works,
    /// It has none, in silence: nobody asked for rtswap.
    Silent,
    /// It has none, and one line with these words says why.
    Says(&'static str),
}

/// Runs `command`, takes its memory away at each `ready`, and compares all that it did with what it
/// does without rtswap.
pub(super) fn run(
    stage: &Stage<'_>,
    probe: &Probe,
    command: Command,
    agent: Agent,
) -> Result<Outcome> {
    compare(stage, command, agent, || stage.run_bare(probe))
}

/// The same for a program that is not one of the probes'.
pub(super) fn run_command(
    stage: &Stage<'_>,
    command: impl Fn() -> Command,
    agent: Agent,
) -> Result<Outcome> {
    let mut ours = command();
    ours.env("LD_PRELOAD", super::around::agent(stage));
    run_against(stage, ours, agent, command())
}

/// Runs `command`, and `bare` for what it must do.
pub(super) fn run_against(
    stage: &Stage<'_>,
    command: Command,
    agent: Agent,
    bare: Command,
) -> Result<Outcome> {
    compare(stage, command, agent, || {
        let mut program = Program::start(bare)?;
        // It may end before it has read them all.
        let _ = program.say(&"go\n".repeat(64));
        program.finish(BOUND)
    })
}

fn compare(
    stage: &Stage<'_>,
    command: Command,
    agent: Agent,
    bare: impl FnOnce() -> Result<Finished>,
) -> Result<Outcome> {
    let mut guest = Guest::start(stage, command)?;
    while let Some(line) = guest.line()? {
        if line.starts_with("ready") {
            if guest.has_agent() {
                guest.swap_out()?;
            }
            guest.go();
        }
    }
    let has_agent = guest.has_agent();
    let ours = guest.finish()?;
    same_end(&ours, &bare()?)?;
    match agent {
        Agent::Works => {
            ensure!(has_agent, "no agent came: {}", ours.stderr);
            ensure!(ours.stderr.is_empty(), "it says {:?}", ours.stderr);
        }
        Agent::Silent => {
            ensure!(!has_agent, "an agent is active");
            ensure!(ours.stderr.is_empty(), "it says {:?}", ours.stderr);
        }
        Agent::Says(words) => {
            ensure!(!has_agent, "an agent is active");
            let lines = ours.stderr.lines().count();
            ensure!(
                lines == 1 && ours.stderr.contains(words),
                "it does not say {words:?} but {:?}",
                ours.stderr
            );
        }
    }
    Ok(if has_agent {
        Outcome::Caught
    } else {
        Outcome::Inert
    })
}

/// Compares how a program ended and what it printed.
pub(super) fn same_end(ours: &Finished, bare: &Finished) -> Result<()> {
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

/// Under the agent, which must work.
pub(super) fn works(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    run(stage, probe, stage.preloaded(probe), Agent::Works)
}
