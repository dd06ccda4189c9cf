//! Under an agent: GPU work waits while the gate is closed, by each of its names, and then reaches the driver as it was
//! passed; what is no GPU work does not wait.

use std::fmt::Write as _;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rtswap_doors::build::Programs;
use rtswap_doors::guest::Guest;
use rtswap_doors::names::{self, functions};
use rtswap_doors::stage::{BOUND, Stage};
use rtswap_doors::stub::Stub;
use rtswap_doors::stub::calls::Made;
use rtswap_e2e::{Machine, MachineOptions};

use crate::apart::{NO_WORK, OURS, WRAPPED};

/// How long a call that asked for its job is watched: one that waits is still waiting.
const WATCHED: Duration = Duration::from_millis(5);

/// How many programs at a time.
const AT_ONCE: usize = 2;

/// What is asked of one name, in a process of its own: a call changes what the agent knows.
type Trial = fn(&mut Guest<'_>, &str) -> Result<()>;

#[test]
fn work_waits_by_each_of_its_names() -> Result<()> {
    on_each(|guest, name| {
        let (waited, made) = call(guest, name)?;
        judge(waited, &made)
    })
}

#[test]
fn no_hook_looks_behind_null_although_the_driver_takes_it() -> Result<()> {
    on_each(|guest, name| {
        guest.idle()?;
        guest.program().say(&format!("null {name}\n"))?;
        let line = guest.line()?;
        line.with_context(|| format!("it ended within the call: {}", guest.program().stderr()))
            .map(drop)
    })
}

/// Tries each hook.
fn on_each(trial: Trial) -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let hooked = names::hooked(&machine.binary("librtswap_cuda.so"))?;
    let stub = Stub::compile(&hooked)?;
    let programs = Programs::compile(&[], &machine.driver_dir())?;
    let names: Vec<&String> = hooked.iter().collect();
    let wrong = thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(AT_ONCE));
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(|| wrong_of(trial, part, &stub, &programs)))
            .collect();
        let mut wrong = Vec::new();
        for thread in threads {
            wrong.extend(thread.join().expect("a thread of this test panicked")?);
        }
        anyhow::Ok(wrong)
    })?;
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// What is wrong with each of these.
fn wrong_of(
    trial: Trial,
    names: &[&String],
    stub: &Stub,
    programs: &Programs,
) -> Result<Vec<String>> {
    let stage = Stage::new(programs, &[], 1)?;
    let mut wrong = Vec::new();
    for name in names {
        let mut guest = start(&stage, stub)?;
        let one = trial(&mut guest, name);
        wrong.extend(one.err().map(|error| format!("{name}: {error:#}")));
    }
    Ok(wrong)
}

/// The program under an agent, with a context.
fn start<'a>(stage: &'a Stage<'a>, stub: &Stub) -> Result<Guest<'a>> {
    let mut digits = String::new();
    for byte in stage.uuid()? {
        let _ = write!(digits, "{byte:02x}");
    }
    let mut command = stub.command(&stage.machine, "serve");
    command.env("STUB_UUID", digits);
    let mut guest = Guest::start(stage, command)?;
    ensure!(guest.line()?.as_deref() == Some("ready"));
    ensure!(guest.has_agent(), "no agent came");
    Ok(guest)
}

/// Whether a call waited at the closed gate, and what came of it.
fn call(guest: &mut Guest<'_>, name: &str) -> Result<(bool, Made)> {
    guest.idle()?;
    guest.program().say(&format!("{name}\n"))?;
    let until = Instant::now() + BOUND;
    let waited = loop {
        if guest.asks()? {
            break true;
        }
        if guest.unread().is_some() {
            break false;
        }
        let stuck = !guest.program().is_running() || Instant::now() > until;
        ensure!(!stuck, "{}", guest.program().stderr());
        sleep(Duration::from_micros(100));
    };
    if waited {
        sleep(WATCHED);
        if let Some(line) = guest.unread() {
            bail!("it did not wait for its job: {line}");
        }
    }
    let line = guest.line()?.context("it ended within the call")?;
    Ok((waited, Made::read(&line)?.context(line)?))
}

fn judge(waited: bool, made: &Made) -> Result<()> {
    let name = made.passed.name.as_str();
    let works = functions(NO_WORK).all(|idle| idle != name);
    ensure!(waited == works, "it waited: {waited}");
    let named: Vec<_> = made.received.iter().filter(|it| it.name == name).collect();
    if functions(OURS).any(|ours| ours == name) {
        ensure!(named.is_empty(), "it reached the driver: {named:?}");
        return Ok(());
    }
    let [received] = named.as_slice() else {
        bail!("{} calls of it reached the driver", named.len());
    };
    if functions(WRAPPED).any(|wrapped| wrapped == name) {
        let (passed, received) = (&made.passed.arguments, &received.arguments);
        ensure!(
            received != passed,
            "the driver got the program's own function"
        );
        let (passed, received) = (around(name, passed)?, around(name, received)?);
        ensure!(received == passed, "{passed:?} came as {received:?}");
    } else {
        ensure!(
            **received == made.passed,
            "{:?} came as {received:?}",
            made.passed
        );
    }
    let result = made.result;
    ensure!(result == 0, "it returned {result}, the driver 0");
    Ok(())
}

/// The arguments before and behind the one that is wrapped: a function and its data after the stream, or a pointer to both at
/// the end.
fn around<'a>(name: &str, arguments: &'a str) -> Result<(&'a str, &'a str)> {
    // Digits of a pointer.
    const POINTER: usize = 16;
    let (from, to) = if name.starts_with("cuGraph") {
        (arguments.len().saturating_sub(POINTER), arguments.len())
    } else {
        (POINTER, 3 * POINTER)
    };
    let parts = arguments.get(..from).zip(arguments.get(to..));
    parts.with_context(|| format!("too few arguments: {arguments}"))
}
