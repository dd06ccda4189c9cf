//! What the agent costs a process: little memory that does not grow, and one thread.
#![allow(missing_docs)]

use std::fs;

use anyhow::{Context, Result, ensure};
use rtswap_doors::build::Programs;
use rtswap_doors::guest::Guest;
use rtswap_doors::stage::{BOUND, Stage};
use rtswap_doors::table::Probe;
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};

const PROBE: Probe = Probe::same("footprint", "churn", "");

/// The most that the agent may hold, beyond the backing store.
const MOST_KIB: u64 = 16 << 10;
/// The most by which it may differ between two times at which the program holds nothing: what an
/// allocator keeps varies.
const NOISE_KIB: u64 = 512;

#[test]
fn a_process_with_an_agent_is_hardly_larger_does_not_grow_and_has_one_thread_more() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let programs = Programs::compile(&[&PROBE], &machine.driver_dir())?;
    let stage = Stage::new(&programs, &[], 1)?;
    let bare = bare(&stage)?;

    let mut guest = Guest::start(&stage, stage.preloaded(&PROBE))?;
    let mut blocks = Vec::new();
    while let Some(line) = guest.line()? {
        if line.starts_with("ready") {
            guest.swap_out()?;
        } else if line == "block" {
            guest.idle()?;
            let pid = guest.program().pid();
            let backing = guest.puppet()?.block().agent.backing().1 / 1024;
            blocks.push(held_kib(pid)?.saturating_sub(backing));
            one_thread_more(pid, &bare.threads)?;
        }
        guest.go();
    }
    ensure!(blocks.len() == bare.held.len(), "{blocks:?}");
    for (ours, bare) in blocks.iter().zip(&bare.held) {
        ensure!(
            *ours <= bare + MOST_KIB,
            "{ours} KiB with the agent, {bare} KiB without: {blocks:?}"
        );
    }
    let grown = blocks[blocks.len() - 1].saturating_sub(blocks[1]);
    ensure!(grown <= NOISE_KIB, "it grew by {grown} KiB: {blocks:?}");
    println!("KiB with the agent {blocks:?}, without {:?}", bare.held);

    Ok(())
}

/// A thread of the driver bears the name of who started it for a moment.
fn one_thread_more(pid: u32, bare: &[String]) -> Result<()> {
    let mut threads = Vec::new();
    let settled = wait_until("one thread more", BOUND, || {
        threads = thread_names(pid).unwrap_or_default();
        threads.len() == bare.len() + 1
    });
    settled.with_context(|| format!("{threads:?}, without the agent {bare:?}"))?;
    ensure!(
        threads.iter().any(|name| name == "rtswap-swap"),
        "{threads:?}"
    );
    Ok(())
}

struct Bare {
    held: Vec<u64>,
    threads: Vec<String>,
}

/// The same program without rtswap.
fn bare(stage: &Stage<'_>) -> Result<Bare> {
    let mut program = Program::start(stage.bare(&PROBE))?;
    let mut bare = Bare {
        held: Vec::new(),
        threads: Vec::new(),
    };
    let mut read = 0;
    while program.is_running() {
        let text = program.stdout();
        let Some(line) = text.lines().nth(read) else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        read += 1;
        if line == "block" {
            bare.held.push(held_kib(program.pid())?);
            bare.threads = thread_names(program.pid())?;
        }
        if line != "ok" {
            program.say("go\n")?;
        }
    }
    // Its last words may be read only after its end.
    let finished = program.finish(BOUND)?;
    ensure!(finished.stdout.ends_with("ok\n"), "{}", finished.stderr);
    Ok(bare)
}

/// Memory of the process's own and its files', in KiB; that of the simulated GPU is shared and not
/// counted.
fn held_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse::<u64>().ok())
            .with_context(|| format!("no {name} in: {status}"))
    };
    Ok(field("RssAnon:")? + field("RssFile:")?)
}

/// The threads that are not the driver's.
fn thread_names(pid: u32) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = fs::read_to_string(thread?.path().join("comm"))?;
        names.push(name.trim().to_owned());
    }
    names.retain(|name| !name.starts_with("simgpu-"));
    Ok(names)
}
