//! A neighbor: the packaged workload, without an agent, that keeps a copy engine busy.

use std::time::Duration;

use super::TrialError;
use super::child::Program;
use super::interrupt::Interrupt;
use super::place::Place;

/// How long it may take to begin: the context, and pinning its memory.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(10);

/// What it copies in one piece, and how many pieces it has.
const PIECE_MIB: u64 = 4;
const PIECES: u64 = 4;

/// The direction of the copies of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// From the host to the GPU.
    In,
    /// From the GPU to the host.
    Out,
    /// At the same time in both.
    Both,
}

/// A running neighbor.
#[derive(Debug)]
pub(crate) struct Neighbor(Program);

impl Neighbor {
    /// Returns once it copies.
    pub(crate) fn start(
        place: &Place,
        copies: Copies,
        interrupt: &Interrupt,
    ) -> Result<Self, TrialError> {
        let direction = match copies {
            Copies::In => "in",
            Copies::Out => "out",
            Copies::Both => "both",
        };
        let memory = format!("{}MiB", PIECE_MIB * PIECES);
        let mut command = place.workload()?;
        command
            .args(["--copy", direction, "--memory", &memory])
            .args(["--layers", &PIECES.to_string()])
            .env_remove("LD_PRELOAD");
        let mut program = Program::start(command)?;
        interrupt.wait(
            || "a program that copies begins".to_owned(),
            START,
            || {
                program.must_run()?;
                let is_ready = program.said().iter().any(|line| line == "ready");
                Ok(is_ready.then_some(()))
            },
        )?;
        Ok(Self(program))
    }

    /// Ends it; an error if its copies went wrong.
    pub(crate) fn finish(self, interrupt: &Interrupt) -> Result<(), TrialError> {
        self.0.finish(END, interrupt).map(drop)
    }
}
