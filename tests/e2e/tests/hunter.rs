//! No program sees what another one left on the GPU. A chunk that comes back is wholly overwritten,
//! whatever lies where it lands, even where no driver clears anything. What is new was cleared by
//! the driver, as it is without rtswap.
#![allow(missing_docs)]

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe, wait_until};
use rtswap_wire::page::Direction;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const BOUND: Duration = Duration::from_secs(30);
/// Three of a handle's granules do not fill one.
const CHUNK: u64 = 8 * MIB;
const FIRST: &str = "a11c";
const SECOND: &str = "b0b5";

struct Player {
    program: Program,
    puppet: Puppet,
    answers: usize,
}

impl Player {
    /// Starts a program that has filled its memory with `mark`.
    fn start(machine: &Machine, listener: &OwnedFd, mark: &str, prey: &str) -> Result<Self> {
        let binary = probe("hunter", &machine.path(""), &machine.driver_dir())?;
        let uuid = machine.wire_uuid()?;
        let mut command = machine.preloaded(binary);
        command.args([mark, prey, "16"]);
        let mut program = Program::start(command)?;
        let puppet = Puppet::accept(listener, uuid, CHUNK, machine.memory_bytes())?;
        puppet.grant_until(&mut program, "ready")?;
        Ok(Self {
            program,
            puppet,
            answers: 1,
        })
    }

    fn out(&mut self) -> Result<u64> {
        wait_until("the job ends", BOUND, || {
            let jobs = self.puppet.block().agent.jobs();
            jobs.is_none_or(|jobs| jobs.requested == jobs.completed)
        })?;
        let arena = self.puppet.block().agent.usage().arena_bytes;
        self.puppet.set_volume(arena)?;
        self.puppet.swap(Direction::Out, arena)?;
        Ok(arena)
    }

    /// What the program finds: words in all, of the other program, and not its own.
    fn hunt(&mut self, line: &str) -> Result<[u64; 3]> {
        self.program.say(line)?;
        let mut answer = None;
        let (program, puppet, number) = (&mut self.program, &self.puppet, self.answers);
        wait_until("the next answer", BOUND, || {
            let jobs = puppet.block().agent.jobs();
            if let Some(jobs) = jobs.filter(|jobs| jobs.requested != jobs.completed) {
                // A wake-up that fails is made up for by the next.
                let _ = puppet.grant(jobs.requested);
            }
            let text = program.stdout();
            let whole = text.ends_with('\n').then_some(&text[..]);
            answer = whole.and_then(|text| text.lines().nth(number).map(str::to_owned));
            answer.is_some() || !program.is_running()
        })
        .with_context(|| program.stderr())?;
        self.answers += 1;
        let answer: Value = serde_json::from_str(&answer.with_context(|| program.stderr())?)?;
        let number = |key: &str| answer[key].as_u64().with_context(|| key.to_owned());
        Ok([number("words")?, number("prey")?, number("strange")?])
    }
}

/// Two programs of which one fits at a time.
fn machine(scrub: bool) -> Result<(Machine, OwnedFd)> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 72,
        simgpu_toml: format!("scrub = {scrub}\n"),
        ..MachineOptions::default()
    })?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    Ok((machine, listener))
}

#[test]
fn a_chunk_that_comes_back_shows_nobody_elses_bytes() -> Result<()> {
    // The most hostile driver: it clears nothing, ever.
    let (machine, listener) = machine(false)?;
    let mut first = Player::start(&machine, &listener, FIRST, SECOND)?;
    let arena = first.out()?;
    ensure!(arena > 36 * MIB, "{arena} bytes: both would fit");
    let mut second = Player::start(&machine, &listener, SECOND, FIRST)?;
    second.out()?;
    for round in 0..3 {
        for player in [&mut first, &mut second] {
            // Where it comes back lies what the other one left.
            player.puppet.swap(Direction::In, 0)?;
            let [words, prey, strange] = player.hunt("\n")?;
            ensure!(words > 0 && prey == 0 && strange == 0, "round {round}");
            player.out()?;
        }
    }
    Ok(())
}

#[test]
fn what_is_new_was_cleared_between_programs() -> Result<()> {
    for scrub in [true, false] {
        let (machine, listener) = machine(scrub)?;
        let mut first = Player::start(&machine, &listener, FIRST, SECOND)?;
        first.out()?;
        let mut second = Player::start(&machine, &listener, SECOND, FIRST)?;
        let [words, swapped, _] = second.hunt("fresh\n")?;
        ensure!(words > 0);
        // What a killed program held counts, too.
        second.program.kill()?;
        let mut third = Player::start(&machine, &listener, "cafe", SECOND)?;
        let [_, killed, _] = third.hunt("fresh\n")?;
        let found = [swapped > 0, killed > 0];
        // Without the driver's scrubbing the hunter finds something, or it could not.
        ensure!(found == [!scrub; 2], "scrub = {scrub}: {found:?}");
    }
    Ok(())
}
