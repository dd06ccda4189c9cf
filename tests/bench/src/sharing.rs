//! Best-effort programs that share a GPU: endless ones that do not fit together, short bursts beside
//! one, weights, and programs that fit. The time of jobs and copies is the simulated GPU's; the
//! programs, their agents and the daemon are real.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use rustix::process::Signal;

use crate::report::{Bound, Report};
use crate::stage::BOUND;

const MEMORY_MIB: u64 = 768;
/// What the daemon leaves of it, for contexts and the driver's own use.
pub(crate) const RESERVE_MIB: u64 = 8;
pub(crate) const CONTEXT_MIB: u64 = 2;
/// An RTX 3090's link on PCIe 3.0 at 1/32 of its speed, out and in.
pub(crate) const LINK_GIB_PER_S: (f64, f64) = (0.3775, 0.3494);
/// Weights that a layer reads in a second.
const COMPUTE_GIB_PER_S: f64 = 2.6;
/// Two of them do not fit, by 124 MiB.
const LARGE_MIB: u64 = 440;
/// Of a job of [`LARGE_MIB`] with one pass.
const SHORT_JOB_S: f64 = LARGE_MIB as f64 / 1024.0 / COMPUTE_GIB_PER_S;
/// Until turns have their rhythm.
const SETTLE: Duration = Duration::from_secs(5);

/// A program and what it does.
#[derive(Clone, Copy)]
struct Guest {
    name: &'static str,
    memory_mib: u64,
    /// Passes over its weights in a job.
    passes: u32,
    /// From one release to the next, in ms; 1 is endless.
    period_ms: u64,
    weight: u32,
}

const ENDLESS: Guest = Guest {
    name: "one",
    memory_mib: LARGE_MIB,
    passes: 1,
    period_ms: 1,
    weight: 100,
};
const LONG: Guest = Guest {
    passes: 20,
    ..ENDLESS
};

/// What a program came to while it was measured.
struct Came {
    /// Jobs a second.
    rate: f64,
    /// Of its jobs in ms, ascending.
    responses: Vec<f64>,
}

impl Came {
    fn quantile(&self, share: f64) -> f64 {
        let last = self.responses.len().saturating_sub(1);
        let index = ((self.responses.len() as f64 * share) as usize).min(last);
        self.responses.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// All of it, about twenty minutes.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    endless(report)?;
    weights(report)?;
    burst(report)?;
    fitting(report)
}

/// Programs that never pause and do not fit together.
fn endless(report: &mut Report) -> Result<()> {
    let all = ["one", "two", "three", "four"];
    for (job, guest, seconds, least) in [
        ("165 ms", ENDLESS, 60, &[(2, 0.85), (4, 0.75)][..]),
        ("3.3 s", LONG, 180, &[(2, 0.9)]),
    ] {
        // What none disturbs takes as long each time.
        let alone = rate(&run(true, &[guest], seconds / 3)?[..1]);
        for &(count, least) in least {
            let guests = &all[..count];
            let guests: Vec<_> = guests.iter().map(|&name| Guest { name, ..guest }).collect();
            let together = rate(&run(true, &guests, seconds)?);
            let name = format!("{count} endless programs with jobs of {job}, together over one");
            report
                .modelled(&name, together / alone, "times")
                .bound(Bound::least(least, 0.02));
        }
    }
    Ok(())
}

/// How far two programs are from their weights.
fn weights(report: &mut Report) -> Result<()> {
    for weight in [100, 50] {
        let two = Guest {
            name: "two",
            weight,
            ..ENDLESS
        };
        let came = run(true, &[ENDLESS, two], 120)?;
        let (meant, found) = (100.0 / f64::from(weight), came[0].rate / came[1].rate);
        let name = format!("jobs in 2 minutes at weights 100 and {weight}, from their ratio");
        report
            .modelled(&name, 100.0 * (found / meant - 1.0).abs(), "%")
            .bound(Bound::most(10.0, 0.0));
    }
    Ok(())
}

/// One short job every 5 s beside an endless program.
fn burst(report: &mut Report) -> Result<()> {
    let burst = Guest {
        name: "burst",
        period_ms: 5000,
        ..ENDLESS
    };
    let alone = rate(&run(true, &[ENDLESS], 20)?);
    let came = run(true, &[ENDLESS, burst], 150)?;
    let [endless, burst] = &came[..] else {
        anyhow::bail!("two programs have run");
    };
    let shortfall = 2 * (LARGE_MIB + CONTEXT_MIB) + RESERVE_MIB - MEMORY_MIB;
    let swap_s = shortfall as f64 / 1024.0 / LINK_GIB_PER_S.0.min(LINK_GIB_PER_S.1);
    // Its own job twice, and the other's that runs when it comes.
    let most = 1e3 * (swap_s + 3.0 * SHORT_JOB_S);
    report.modelled("burst every 5 s, response p50", burst.quantile(0.5), "ms");
    report
        .modelled("burst every 5 s, response p99", burst.quantile(0.99), "ms")
        .bound(Bound::most(most, 0.05));
    let left = alone * (1.0 - SHORT_JOB_S / 5.0);
    report
        .modelled(
            "endless program beside it, over alone",
            endless.rate / left,
            "times",
        )
        .bound(Bound::least(0.6, 0.0));
    Ok(())
}

/// Programs that fit together, with rtswap and without.
fn fitting(report: &mut Report) -> Result<()> {
    let endless = Guest {
        memory_mib: 300,
        ..ENDLESS
    };
    let small = Guest {
        name: "small",
        memory_mib: 8,
        period_ms: 100,
        ..ENDLESS
    };
    let guests = [endless, small];
    // In turn, for what else the machine does; twice, because the p99 of 500 jobs is that of five.
    let run = |under| run(under, &guests, 60);
    let (first_without, first_with) = (run(false)?, run(true)?);
    let (without, with) = (
        pooled(first_without, run(false)?),
        pooled(first_with, run(true)?),
    );
    let slower = |with: f64, without: f64| 100.0 * (1.0 - with / without);
    for (what, with, without) in [
        ("endless of 300 MiB", with[0].rate, without[0].rate),
        ("8 MiB every 100 ms", with[1].rate, without[1].rate),
        ("both", rate(&with), rate(&without)),
    ] {
        report
            .modelled(
                &format!("they fit: {what}, slower than without rtswap"),
                slower(with, without),
                "%",
            )
            .bound(Bound::most(1.0, 0.5));
    }
    for (what, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let (with, without) = (with[1].quantile(quantile), without[1].quantile(quantile));
        let name = format!("8 MiB every 100 ms beside 300 MiB, response {what}");
        report.modelled(&format!("{name} without rtswap"), without, "ms");
        report
            .modelled(&name, with, "ms")
            .bound(Bound::most(without, 0.05));
    }
    Ok(())
}

/// Two runs of the same programs, measured equally long, as one.
fn pooled(first: Vec<Came>, second: Vec<Came>) -> Vec<Came> {
    let each = first.into_iter().zip(second);
    each.map(|(first, second)| {
        let mut responses = [first.responses, second.responses].concat();
        responses.sort_by(f64::total_cmp);
        Came {
            rate: f64::midpoint(first.rate, second.rate),
            responses,
        }
    })
    .collect()
}

fn rate(came: &[Came]) -> f64 {
    came.iter().map(|came| came.rate).sum()
}

/// Lets all run together, with rtswap or without, and measures them for so many seconds.
fn run(under: bool, guests: &[Guest], seconds: u64) -> Result<Vec<Came>> {
    let machine = machine(MEMORY_MIB)?;
    let _daemon = under.then(|| daemon(&machine)).transpose()?;
    let mut programs = Vec::new();
    for guest in guests {
        let program = start(&machine, guest, under)?;
        wait_until("its first job", BOUND, || !times(&program).is_empty())
            .with_context(|| program.stderr())?;
        programs.push(program);
    }
    sleep(SETTLE);
    let before = at_an_end(&programs)?;
    let start = Instant::now();
    sleep(Duration::from_secs(seconds));
    let after = at_an_end(&programs)?;
    let seconds = start.elapsed().as_secs_f64();
    for program in programs {
        program.signal(Signal::INT)?;
        program.finish(BOUND)?;
    }
    let each = after.into_iter().zip(before);
    each.map(|(jobs, before)| {
        let jobs = &jobs[before.len()..];
        ensure!(jobs.iter().all(|(_, right)| *right), "wrong results");
        let mut responses: Vec<f64> = jobs.iter().map(|(ms, _)| *ms).collect();
        responses.sort_by(f64::total_cmp);
        Ok(Came {
            rate: jobs.len() as f64 / seconds,
            responses,
        })
    })
    .collect()
}

/// The jobs of each so far, taken when one has just ended. Where programs take turns, no other job is
/// under way at that moment, so that none is counted in part.
fn at_an_end(programs: &[Program]) -> Result<Vec<Vec<(f64, bool)>>> {
    let all = || programs.iter().map(times).collect::<Vec<_>>();
    let count = |all: &[Vec<_>]| all.iter().map(Vec::len).sum::<usize>();
    let before = count(&all());
    let mut now = all();
    wait_until("the end of a job", BOUND, || {
        now = all();
        count(&now) > before
    })?;
    Ok(now)
}

/// A machine with one GPU of `memory_mib` MiB.
pub(crate) fn machine(memory_mib: u64) -> Result<Machine> {
    let machine = Machine::new(MachineOptions {
        memory_mib,
        link_gib_per_s: LINK_GIB_PER_S.0,
        ..MachineOptions::default()
    })?;
    let (out, into) = LINK_GIB_PER_S;
    let text = format!(
        "version = 1\nmemory = \"{memory_mib}MiB\"\ncontext_bytes = \"{CONTEXT_MIB}MiB\"\n\
         d2h_gib_per_s = {out:?}\nh2d_gib_per_s = {into:?}\ncompute_gib_per_s = {COMPUTE_GIB_PER_S:?}\n"
    );
    fs::write(machine.path("simgpu.toml"), text)?;
    Ok(machine)
}

/// A daemon that knows what the link takes, as after a calibration.
pub(crate) fn daemon(machine: &Machine) -> Result<Program> {
    let uuids = machine.uuids()?;
    let uuid = uuids.first().context("the machine has no GPU")?;
    let (out, into) = LINK_GIB_PER_S;
    let text = format!(
        "version = 1\n[daemon]\nprobes = false\n[[gpu]]\nuuid = \"{uuid}\"\nreserve = \"{RESERVE_MIB}MiB\"\n\
         chunk = \"2MiB\"\n[gpu.swap_cost.out]\nbase_us = 500.0\nper_chunk_us = 100.0\ngib_per_s = {out:?}\n\
         [gpu.swap_cost.in]\nbase_us = 500.0\nper_chunk_us = 100.0\ngib_per_s = {into:?}\n"
    );
    let config = machine.path("rtswapd.toml");
    fs::write(&config, text)?;
    let mut command = machine.command(machine.binary("rtswapd"));
    command.arg("--config").arg(config);
    let daemon = Program::start(command)?;
    wait_until("the daemon serves", BOUND, || machine.status().is_ok())?;
    Ok(daemon)
}

fn start(machine: &Machine, guest: &Guest, under: bool) -> Result<Program> {
    let mut command = if under {
        let weight = guest.weight.to_string();
        machine.run(&["--name", guest.name, "--weight", &weight], machine.dnn())
    } else {
        machine.command(machine.dnn())
    };
    command.args(["--times", "--name", guest.name]);
    command.args(["--memory", &format!("{}MiB", guest.memory_mib)]);
    command.args(["--work", &guest.passes.to_string()]);
    command.args(["--period", &format!("{}ms", guest.period_ms)]);
    Program::start(command)
}

/// Response in ms of each job so far, and whether its result was right.
fn times(program: &Program) -> Vec<(f64, bool)> {
    let said = program.stderr();
    // The last line may not be whole.
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    let jobs = whole.lines().filter_map(|line| {
        let mut words = line.strip_prefix("times ")?.split(' ').skip(1);
        let us: f64 = words.next()?.parse().ok()?;
        Some((us / 1e3, words.next()? == "right"))
    });
    jobs.collect()
}
