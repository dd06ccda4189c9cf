//! Memory of one task in another process, while the rest of the task is swapped out.
#![allow(missing_docs)]

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe, wait_until};
use rtswap_wire::page::Direction;
use serde_json::{Value, json};

const CHUNK: u64 = 2 << 20;
const BOUND: Duration = Duration::from_secs(30);

struct Guest {
    program: Program,
    puppet: Puppet,
    lines: usize,
}

impl Guest {
    fn start(
        machine: &Machine,
        listener: &OwnedFd,
        path: &std::path::Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let uuid = machine.wire_uuid()?;
        let mut command = machine.preloaded(path);
        command.args(arguments);
        let mut program = Program::start(command)?;
        let puppet = Puppet::accept(listener, uuid, CHUNK, machine.memory_bytes())?;
        program.wait_for_line("ready", BOUND)?;
        Ok(Self {
            program,
            puppet,
            lines: 1,
        })
    }

    /// Lets the program go on, grants its jobs, and returns its next line.
    fn next(&mut self) -> Result<String> {
        self.program.say("\n")?;
        let start = Instant::now();
        loop {
            let text = self.program.stdout();
            if let Some(line) = text.lines().nth(self.lines)
                && text.ends_with('\n')
            {
                self.lines += 1;
                return Ok(line.to_owned());
            }
            let jobs = self.puppet.block().agent.jobs();
            if let Some(jobs) = jobs.filter(|jobs| jobs.requested != jobs.completed) {
                self.puppet.grant(jobs.requested)?;
            }
            ensure!(
                self.program.is_running() && start.elapsed() < BOUND,
                "no answer after: {text}{}",
                self.program.stderr()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn json(&mut self) -> Result<Value> {
        Ok(serde_json::from_str(&self.next()?)?)
    }

    fn idle(&self) -> Result<()> {
        wait_until("the job ends", BOUND, || {
            let jobs = self.puppet.block().agent.jobs();
            jobs.is_none_or(|jobs| jobs.requested == jobs.completed)
        })
    }
}

#[test]
fn another_process_works_in_memory_that_is_held_for_it() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let path = probe("ipc", &machine.path(""), &machine.driver_dir())?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut owner = Guest::start(&machine, &listener, &path, &["offer"])?;
    let line = owner.next()?;
    let handle = line
        .strip_prefix("handle ")
        .context("no handle")?
        .to_owned();
    owner.idle()?;
    let usage = owner.puppet.block().agent.usage();
    // 5 MiB from 0.7 MiB on: three chunks, and nothing else is there.
    ensure!(
        usage.arena_bytes == 0 && usage.resident_bytes >= 3 * CHUNK,
        "held is not swappable: {usage:?}"
    );

    let mut other = Guest::start(&machine, &listener, &path, &["open", &handle])?;
    let done = other.json()?;
    let expected = json!({
        "bad": 0, "same": 1, "base": 1, "size": 5 << 20, "still": 0, "closed": 0, "twice": 1
    });
    ensure!(
        done == expected,
        "{done} is not {expected}: {}",
        other.program.stderr()
    );
    ensure!(
        owner.json()? == json!({"bad": 0}),
        "the other's work is not seen"
    );

    // The other's own memory leaves as ever.
    other.idle()?;
    let arena = other.puppet.block().agent.usage().arena_bytes;
    other.puppet.set_volume(arena)?;
    other.puppet.swap(Direction::Out, arena)?;

    // A handle of what was freed opens nothing.
    ensure!(owner.json()? == json!({"freed": 0}));
    let mut late = Guest::start(&machine, &listener, &path, &["open", &handle])?;
    let refused = late.json()?;
    ensure!(refused == json!({"status": 1}), "{refused}");
    late.program
        .wait_for_complaint("must not have freed it", BOUND)?;
    owner.program.kill()?;
    other.program.kill()?;
    late.program.kill()
}

/// So many rounds of the race are run, 400 unless this variable says more.
const ROUNDS: &str = "RTSWAP_IPC_ROUNDS";

#[test]
fn no_page_of_other_memory_is_seen_where_something_was_freed() -> Result<()> {
    let rounds = std::env::var(ROUNDS).unwrap_or_else(|_| "400".into());
    let machine = Machine::new(MachineOptions::default())?;
    let path = probe("ipc_race", &machine.path(""), &machine.driver_dir())?;
    let table = machine.path("table");
    std::fs::write(&table, [0; 4096])?;
    let table = table.to_str().context("a path of text")?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut owner = Guest::start(&machine, &listener, &path, &["offer", table, &rounds])?;
    let mut other = Guest::start(&machine, &listener, &path, &["open", table, &rounds])?;
    let rounds: u64 = rounds.parse()?;
    let until = Instant::now() + BOUND + Duration::from_millis(20) * u32::try_from(rounds)?;
    for guest in [&mut owner, &mut other] {
        guest.program.say("\n")?;
    }
    while owner.program.is_running() || other.program.is_running() {
        for guest in [&owner, &other] {
            guest.puppet.grant_any()?;
        }
        ensure!(
            Instant::now() < until,
            "the race never ended: {}{}",
            owner.program.stderr(),
            other.program.stderr()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let [offered, seen] = [owner, other].map(|guest| guest.program.finish(BOUND)?.json());
    let (offered, seen) = (offered?, seen?);
    ensure!(seen["foreign"] == 0, "{seen} of {offered}");
    let [opened, refused] = [&seen["opened"], &seen["refused"]].map(Value::as_u64);
    ensure!(
        opened.zip(refused).is_some_and(|(opened, refused)| {
            opened + refused == rounds && opened.min(refused) >= rounds / 20
        }) && offered["replaced"] == rounds,
        "no race: {seen} of {offered}"
    );
    println!("{offered} {seen}");
    Ok(())
}
