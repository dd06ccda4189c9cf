//! What a call costs under the agent, over a driver that does nothing.

use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, compile};

use crate::report::{Bound, Report};
use crate::stage::{BOUND, let_run, source};

/// Names itself so.
const STUB_UUID: [u8; 16] = *b"rtswap-bench-gpu";
/// What it claims to have, in bytes.
pub(crate) const STUB_MEMORY: u64 = 24 << 30;
/// Runs of each, taken in turn; the best counts.
const ROUNDS: usize = 5;

/// A machine whose driver does nothing at once.
pub(crate) struct Stub {
    machine: Machine,
    program: PathBuf,
    driver: PathBuf,
}

/// How a program meets the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// Not at all.
    Absent,
    /// Preloaded, without a daemon.
    Inert,
    /// With a daemon that grants whatever is asked for.
    Granted,
}

impl Stub {
    /// Compiles driver and program.
    pub(crate) fn new() -> Result<Self> {
        let machine = Machine::new(MachineOptions::default())?;
        let driver = machine.path("stub");
        fs::create_dir(&driver)?;
        let stub = fs::read_to_string(source("stub"))?;
        fs::write(driver.join("stub_rest.h"), rest(&machine, &stub)?)?;
        let library = driver.join("libcuda.so.1");
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
        compiler
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC"])
            .args(["-Wl,-soname,libcuda.so.1", "-o"])
            .arg(&library)
            .arg(source("stub"))
            .arg("-I")
            .arg(&driver);
        let output = compiler.output().context("cannot run the C compiler")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let program = compile(&source("calls"), &machine.path(""), &driver)?;
        Ok(Self {
            machine,
            program,
            driver,
        })
    }

    /// A daemon's socket on this machine.
    pub(crate) fn listen(&self) -> Result<OwnedFd> {
        Puppet::listen(&self.machine.runtime_dir())
    }

    /// Starts `calls MODE` under the agent, whose daemon is the bench.
    pub(crate) fn managed(
        &self,
        listener: &OwnedFd,
        mode: &str,
        chunk: u64,
    ) -> Result<(Program, Puppet)> {
        let program = Program::start(self.command(Agent::Granted, mode))?;
        let puppet = Puppet::accept(listener, STUB_UUID, chunk, STUB_MEMORY)
            .with_context(|| program.stderr())?;
        Ok((program, puppet))
    }

    fn command(&self, agent: Agent, mode: &str) -> Command {
        let mut command = match agent {
            Agent::Absent => self.machine.command(&self.program),
            Agent::Inert | Agent::Granted => self.machine.preloaded(&self.program),
        };
        command.arg(mode).env("LD_LIBRARY_PATH", &self.driver);
        if agent == Agent::Inert {
            command.env("RTSWAP_RUNTIME_DIR", self.machine.path("nobody"));
        }
        command
    }

    fn run(&self, listener: &OwnedFd, agent: Agent, mode: &str) -> Result<serde_json::Value> {
        if agent == Agent::Granted {
            let (mut program, puppet) = self.managed(listener, mode, 2 << 20)?;
            let_run(&puppet, &mut program, "}")?;
            return program.finish(BOUND)?.json();
        }
        Program::start(self.command(agent, mode))?
            .finish(BOUND)?
            .json()
    }

    /// The least of a number over several runs of each agent, taken in turn.
    fn best(
        &self,
        listener: &OwnedFd,
        agents: &[Agent],
        mode: &str,
        key: &str,
    ) -> Result<Vec<f64>> {
        let mut best = vec![f64::MAX; agents.len()];
        for _ in 0..ROUNDS {
            for (best, agent) in best.iter_mut().zip(agents) {
                let report = self.run(listener, *agent, mode)?;
                *best = best.min(report[key].as_f64().context("no number")?);
            }
        }
        Ok(best)
    }
}

/// Functions that return at once, for all that the simulated driver exports and `stub` has not.
fn rest(machine: &Machine, stub: &str) -> Result<String> {
    let library = machine.driver_dir().join("libcuda.so.1");
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(&library)
        .output()
        .context("cannot run nm")?;
    ensure!(
        output.status.success(),
        "nm: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut text = String::new();
    for name in String::from_utf8(output.stdout)?.lines() {
        if name.starts_with("cu") && !stub.contains(&format!("int {name}(")) {
            writeln!(text, "int {name}(void); int {name}(void) {{ return 0; }}")?;
        }
    }
    Ok(text)
}

/// Launches and allocations.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let stub = Stub::new()?;
    let listener = stub.listen()?;
    let agents = [Agent::Absent, Agent::Inert, Agent::Granted];
    let launch = stub.best(&listener, &agents, "launch", "launch_ns")?;
    report.measured("a launch over a driver that does nothing", launch[0], "ns");
    report
        .measured(
            "inert agent, added to a launch",
            launch[1] - launch[0],
            "ns",
        )
        .bound(Bound::most(5.0, 0.4));
    report
        .measured(
            "gate when granted, added to a launch",
            launch[2] - launch[0],
            "ns",
        )
        .bound(Bound::most(5.0, 0.4));
    let agents = [Agent::Absent, Agent::Granted];
    let alloc = stub.best(&listener, &agents, "alloc", "alloc_ns")?;
    report
        .measured(
            "allocation of 4 KiB, added by the agent",
            (alloc[1] - alloc[0]) / 1e3,
            "µs",
        )
        .bound(Bound::most(0.5, 0.2));
    let free = stub.best(&listener, &agents, "alloc", "free_ns")?;
    report.measured(
        "its free, added by the agent",
        (free[1] - free[0]) / 1e3,
        "µs",
    );
    let ordered = stub.best(&listener, &agents, "ordered", "ordered_ns")?;
    report.measured(
        "allocation of 4 KiB on a stream and its free there, added by the agent",
        (ordered[1] - ordered[0]) / 1e3,
        "µs",
    );
    Ok(())
}
