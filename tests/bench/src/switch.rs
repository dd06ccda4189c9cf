//! The GPU changes hands between two idle programs, each of which fills it: from the request of a job until its first kernel is
//! let through, beside what the link alone takes for one way out and one back at the same time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rtswap_e2e::{Machine, Program, wait_until};
use rustix::process::Signal;

use crate::report::{Bound, Report};
use crate::sharing::{CONTEXT_MIB, LINK_GIB_PER_S, RESERVE_MIB, daemon, machine};
use crate::stage::BOUND;

const MEMORY_MIB: u64 = 192;
/// Activations and what else a program has, in chunks of its own.
const BESIDE_MIB: u64 = 4;
/// With that, the contexts of both and what the daemon leaves, all of the GPU.
const PROGRAM_MIB: u64 = MEMORY_MIB - RESERVE_MIB - 2 * CONTEXT_MIB - BESIDE_MIB;
/// Of each program: between two of its jobs the other has one, and both are idle before and after that.
const PERIOD: Duration = Duration::from_secs(3);
/// From a job of one to the next job of the other, half a period, and how far from it they may be.
const APART: Duration = Duration::from_millis(1500);
const OFF: Duration = Duration::from_millis(400);
/// Changes that are measured.
const CHANGES: usize = 50;
/// Until a program's jobs come in the middle between those of the other.
const TRIES: usize = 5;

/// A job that has run.
struct Job {
    release: Instant,
    /// Until its first kernel was let through.
    wait: Duration,
}

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let machine = machine(MEMORY_MIB)?;
    let _daemon = daemon(&machine)?;
    let one = start(&machine, "one", Duration::ZERO)?;
    next_job(&one, 0)?;
    let other = between(&machine, &one)?;
    let (mut waits, mut seen) = (Vec::new(), [&one, &other].map(|it| times(it).len()));
    while waits.len() < CHANGES {
        for (program, seen) in [&one, &other].into_iter().zip(&mut seen) {
            let job = next_job(program, *seen)?;
            *seen += 1;
            waits.push(job.wait);
        }
    }
    for program in [one, other] {
        program.signal(Signal::INT)?;
        let finished = program.finish(BOUND)?;
        ensure!(!finished.stderr.contains(" wrong"), "{}", finished.stderr);
    }
    waits.sort();
    let bytes = PROGRAM_MIB as f64 / 1024.0;
    let link = bytes / LINK_GIB_PER_S.0.min(LINK_GIB_PER_S.1);
    let median = waits[waits.len() / 2].as_secs_f64();
    report.modelled(
        "one way out and one back at the same time, the link alone",
        1e3 * link,
        "ms",
    );
    report.modelled(
        "from an idle program to another, median of 50",
        1e3 * median,
        "ms",
    );
    let slowest = waits.last().map_or(0.0, Duration::as_secs_f64);
    report.modelled(
        "from an idle program to another, slowest of 50",
        1e3 * slowest,
        "ms",
    );
    report
        .modelled(
            "from an idle program to another, over the link alone",
            median / link,
            "times",
        )
        .bound(Bound::most(1.15, 0.03));
    Ok(())
}

/// Starts the other program so that its jobs come in the middle between those of `one`.
fn between(machine: &Machine, one: &Program) -> Result<Program> {
    let mut phase = Duration::ZERO;
    for _ in 0..TRIES {
        let other = start(machine, "other", phase)?;
        let job = next_job(&other, 0)?;
        let beside = next_job(one, times(one).len())?;
        let after = beside.release + PERIOD - job.release;
        let apart = Duration::from_nanos((after.as_nanos() % PERIOD.as_nanos()) as u64);
        if apart.abs_diff(APART) <= OFF {
            return Ok(other);
        }
        // Later by what it is too early, and by a whole period.
        let later = phase + apart + APART;
        phase = Duration::from_nanos((later.as_nanos() % PERIOD.as_nanos()) as u64);
        other.signal(Signal::INT)?;
        other.finish(BOUND)?;
    }
    bail!("the programs' jobs do not come apart in {TRIES} tries")
}

fn start(machine: &Machine, name: &str, phase: Duration) -> Result<Program> {
    let mut command = machine.run(&["--name", name], machine.dnn());
    command.args(["--times", "--name", name]);
    command.args(["--memory", &format!("{PROGRAM_MIB}MiB")]);
    command.args(["--period", &format!("{}ms", PERIOD.as_millis())]);
    command.args(["--phase", &format!("{}ms", phase.as_millis())]);
    Program::start(command)
}

/// Waits for the job behind the first `seen`.
fn next_job(program: &Program, seen: usize) -> Result<Job> {
    let mut found = None;
    wait_until("its next job", BOUND, || {
        found = times(program).get(seen).copied();
        found.is_some()
    })
    .with_context(|| program.stderr())?;
    let now = Instant::now();
    let (wait, response) = found.context("a job")?;
    let release = now.checked_sub(response).context("the clock is young")?;
    Ok(Job { release, wait })
}

/// The waits and responses of all jobs so far.
fn times(program: &Program) -> Vec<(Duration, Duration)> {
    let said = program.stderr();
    // The last line may not be whole.
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    let jobs = whole.lines().filter_map(|line| {
        let mut words = line.strip_prefix("times ")?.split(' ');
        let mut span = || Some(Duration::from_micros(words.next()?.parse().ok()?));
        Some((span()?, span()?))
    });
    jobs.collect()
}
