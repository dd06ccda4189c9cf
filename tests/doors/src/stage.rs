//! The machine that one probe runs on.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use rtswap_e2e::{Finished, Machine, MachineOptions, Program, Puppet};

use crate::build::Programs;
use crate::ran;
use crate::table::Probe;

/// The longest that a probe may take for one step, also under valgrind on a busy machine.
pub const BOUND: Duration = Duration::from_mins(1);

/// MiB of each simulated GPU; probes that want more than there is ask for more than that.
pub const MEMORY_MIB: u64 = 64;

/// δ in bytes.
pub const CHUNK: u64 = 2 << 20;

/// A machine of its own for one probe.
pub struct Stage<'a> {
    /// The machine.
    pub machine: Machine,
    programs: &'a Programs,
    under: &'a [String],
}

impl<'a> Stage<'a> {
    /// Sets it up; programs run under the command `under`, if it names one.
    pub fn new(programs: &'a Programs, under: &'a [String], gpus: u32) -> Result<Self> {
        let machine = Machine::new(MachineOptions {
            gpus,
            memory_mib: MEMORY_MIB,
            link_gib_per_s: 8.0,
            chunk_mib: CHUNK >> 20,
            ..MachineOptions::default()
        })?;
        Ok(Self {
            machine,
            programs,
            under,
        })
    }

    /// Another machine for the same programs.
    pub fn with(&self, options: MachineOptions) -> Result<Self> {
        Ok(Self {
            machine: Machine::new(options)?,
            programs: self.programs,
            under: self.under,
        })
    }

    /// The probe without rtswap.
    pub fn bare(&self, probe: &Probe) -> Command {
        let program = self.programs.path(probe.file);
        let mut command = match self.under {
            [] => self.machine.command(program),
            [tool, arguments @ ..] => {
                let mut command = self.machine.command(tool);
                command.args(arguments).arg(program);
                command
            }
        };
        command
            .arg(probe.argument)
            .env("DOORS_FOLDER", self.programs.folder())
            .env(ran::VARIABLE, self.programs.ran());
        command
    }

    /// The probe under the agent.
    pub fn preloaded(&self, probe: &Probe) -> Command {
        let mut command = self.bare(probe);
        command.env("LD_PRELOAD", self.machine.binary("librtswap_cuda.so"));
        command
    }

    /// Runs the probe without rtswap: each of its questions is answered at once.
    pub fn run_bare(&self, probe: &Probe) -> Result<Finished> {
        let mut program = Program::start(self.bare(probe))?;
        // It may end before it has read them all.
        let _ = program.say(&"go\n".repeat(64));
        program.finish(BOUND)
    }

    /// Serves the agent socket; before the probe starts.
    pub fn listen(&self) -> Result<OwnedFd> {
        let runtime = self.machine.runtime_dir();
        let socket: PathBuf = runtime.join("agent.sock");
        if socket.exists() {
            fs::remove_file(socket)?;
        }
        Puppet::listen(&runtime)
    }

    /// The UUID of GPU 0, as the wire has it.
    pub fn uuid(&self) -> Result<[u8; 16]> {
        self.machine.wire_uuid()
    }
}
