//! What the agent takes of a process beside the backing store, and of the disk.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Program, Puppet, compile};
use rtswap_wire::page::Direction;

use crate::report::{Bound, Report};
use crate::stage::{BOUND, Held, Scale, source};

/// Chunks that are swapped, so that all of the agent has been used.
const CHUNKS: u64 = 64;

/// Sizes and threads.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let scale = Scale::of(64);
    let machine = scale.machine()?;
    let library = installed_bytes(&machine)?;
    report
        .measured(
            "librtswap_cuda.so as installed",
            library as f64 / MIB,
            "MiB",
        )
        .bound(Bound::most(3.0, 0.0).robust());

    let bare = bare(&machine)?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut held = Held::start(&machine, &listener, scale, CHUNKS)?;
    held.swap(Direction::Out, CHUNKS)?;
    held.swap(Direction::In, 0)?;
    let with = private(held.pid())?;
    let backing = (CHUNKS * scale.chunk_bytes()) as f64;
    report
        .measured(
            "agent, memory beside the backing store",
            (with - bare - backing) / MIB,
            "MiB",
        )
        .bound(Bound::most(16.0, 0.0).robust());
    let threads = ours(held.pid())?;
    report
        .measured("agent, lasting threads", threads as f64, "threads")
        .bound(Bound::most(1.0, 0.0).robust());
    held.finish()
}

const MIB: f64 = 1_048_576.0;

/// The library's size as the package installs it: without the symbols that debuggers read.
fn installed_bytes(machine: &Machine) -> Result<u64> {
    let stripped = machine.path("stripped.so");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped);
    let status = strip.arg(machine.binary("librtswap_cuda.so")).status();
    ensure!(
        status.context("cannot run strip")?.success(),
        "strip failed"
    );
    Ok(fs::metadata(stripped)?.len())
}

/// The private bytes of the same program without the agent.
fn bare(machine: &Machine) -> Result<f64> {
    let program = compile(&source("hold"), &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.command(program);
    command.args([CHUNKS.to_string(), "2".into()]);
    let mut program = Program::start(command)?;
    program.wait_for_line("ready", BOUND)?;
    private(program.pid())
}

/// Memory that a process shares with none, in bytes.
fn private(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let mut sum = 0.0;
    for key in ["Private_Clean:", "Private_Dirty:"] {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.context("smaps_rollup without its keys")?;
        sum += kib.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0;
    }
    Ok(sum)
}

/// The agent's threads, by their names.
fn ours(pid: u32) -> Result<usize> {
    let mut count = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = fs::read_to_string(thread?.path().join("comm"))?;
        count += usize::from(name.starts_with("rtswap"));
    }
    Ok(count)
}
