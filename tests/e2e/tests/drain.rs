//! What a gate waits for when it closes, and what it must not wait for.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Offer, Program, Puppet, probe, wait_until};
use rtswap_wire::page::Direction;

const CHUNK: u64 = 2 << 20;

/// Where only a fault takes so long: what is drained at once takes less than half of it on any host.
const DRAIN_MS: u32 = 10_000;

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(20);

struct Stage {
    machine: Machine,
    program: Program,
    puppet: Puppet,
}

/// A probe under a puppet on a machine with so many GPUs; it has begun, but no job is granted yet.
fn stage(
    name: &str,
    arguments: &[&str],
    gpus: u32,
    drain_bound_ms: u32,
    max_in_flight: u32,
) -> Result<Stage> {
    let machine = Machine::new(MachineOptions {
        link_gib_per_s: 64.0,
        gpus,
        ..MachineOptions::default()
    })?;
    let program = probe(name, &machine.path(""), &machine.driver_dir())?;
    let uuids = machine.wire_uuids()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut command = machine.preloaded(program);
    command.args(arguments);
    let program = Program::start(command)?;
    let offer = Offer {
        gpus: &uuids,
        chunk: CHUNK,
        memory: machine.memory_bytes(),
        drain_bound_ms,
        max_in_flight,
    };
    let puppet = Puppet::offer(&listener, offer)?;
    Ok(Stage {
        machine,
        program,
        puppet,
    })
}

impl Stage {
    /// All that the program has goes out, once its job has ended, and comes back.
    fn out_and_in(&mut self) -> Result<()> {
        let arena = self.puppet.block().agent.usage().arena_bytes;
        self.puppet.set_volume(arena)?;
        self.puppet
            .swap(Direction::Out, arena)
            .with_context(|| self.program.stderr())?;
        self.puppet
            .swap(Direction::In, 0)
            .with_context(|| self.program.stderr())?;
        Ok(())
    }
}

#[test]
fn a_drain_waits_for_every_kind_of_stream() -> Result<()> {
    const CLOSINGS: u32 = 400;
    let Stage {
        machine: _machine,
        mut program,
        mut puppet,
    } = stage("streams", &["24"], 1, 5_000, 64)?;
    puppet.grant_until(&mut program, "ready")?;
    let arena = puppet.block().agent.usage().arena_bytes;
    puppet.set_volume(arena)?;
    for round in 0..CLOSINGS {
        let job = puppet.wait_for_job().with_context(|| program.stderr())?;
        puppet.grant(job)?;
        std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 2_000)));
        puppet.revoke(job).with_context(|| program.stderr())?;
        puppet
            .swap(Direction::Out, arena)
            .with_context(|| program.stderr())?;
        puppet
            .swap(Direction::In, 0)
            .with_context(|| program.stderr())?;
    }
    program.say("x")?;
    let report = puppet.grant_to_the_end(program)?.json()?;
    ensure!(report["wrong_words"] == 0, "{report}");
    ensure!(
        report["launches"].as_u64() > Some(u64::from(CLOSINGS)),
        "{report}"
    );
    Ok(())
}

/// The drain waits for the host function, that for a thread, and the thread for the gate.
#[test]
fn a_thread_that_a_host_function_waits_for_is_let_through() -> Result<()> {
    let mut stage = stage("host_wait", &[], 1, DRAIN_MS, 0)?;
    let Stage {
        program, puppet, ..
    } = &mut stage;
    puppet.grant_until(program, "ready")?;
    program.say("1")?;
    puppet.grant_until(program, "waiting")?;
    let job = puppet.block().agent.jobs().context("no job")?.requested;
    // The thread finds the gate closed, or is ahead of it.
    let start = Instant::now();
    puppet.block().daemon.revoke(job);
    std::thread::sleep(Duration::from_millis(20));
    program.say("2")?;
    puppet.revoke(job).with_context(|| program.stderr())?;
    let drained = start.elapsed();
    ensure!(
        drained < Duration::from_millis(u64::from(DRAIN_MS / 2)),
        "drained after {drained:?}"
    );
    program.wait_for_line("done", BOUND)?;
    stage.out_and_in()?;
    stage.program.say("3")?;
    let report = stage.puppet.grant_to_the_end(stage.program)?.json()?;
    ensure!(report["wrong_words"] == 0, "{report}");
    ensure!(
        report["waited_ms"].as_u64() < Some(u64::from(DRAIN_MS / 2)),
        "{report}"
    );
    Ok(())
}

#[test]
fn a_kernel_longer_than_the_bound_is_undrainable_and_nothing_leaves() -> Result<()> {
    let mut stage = stage("ahead", &["1", "6000000", "1"], 1, 300, 0)?;
    stage.puppet.grant_until(&mut stage.program, "launched")?;
    let arena = stage.puppet.block().agent.usage().arena_bytes;
    stage.puppet.set_volume(arena)?;
    let ended = stage.puppet.swap(Direction::Out, arena);
    let why = ended.err().context("swapped under a kernel")?.to_string();
    ensure!(why.contains("Undrainable"), "{why}");
    ensure!(stage.puppet.block().agent.usage().swapped_bytes == 0);
    // It ends by itself: then all can go.
    stage.program.wait_for_line("\"launches\":1", BOUND)?;
    let finished = stage.puppet.grant_to_the_end(stage.program)?;
    ensure!(finished.status.success(), "{finished:?}");
    drop(stage.machine);
    Ok(())
}

#[test]
fn a_host_function_longer_than_the_bound_is_undrainable_too() -> Result<()> {
    let mut stage = stage("host_wait", &[], 1, 300, 0)?;
    stage.puppet.grant_until(&mut stage.program, "ready")?;
    stage.program.say("1")?;
    stage.puppet.grant_until(&mut stage.program, "waiting")?;
    let arena = stage.puppet.block().agent.usage().arena_bytes;
    stage.puppet.set_volume(arena)?;
    let ended = stage.puppet.swap(Direction::Out, arena);
    let why = ended.err().context("swapped under it")?.to_string();
    ensure!(why.contains("Undrainable"), "{why}");
    stage.program.say("2")?;
    stage.puppet.grant_until(&mut stage.program, "done")?;
    stage.out_and_in()?;
    stage.program.say("3")?;
    let report = stage.puppet.grant_to_the_end(stage.program)?.json()?;
    ensure!(report["wrong_words"] == 0, "{report}");
    Ok(())
}

#[test]
fn a_program_far_ahead_of_its_gpu_is_held_back() -> Result<()> {
    // 6 s of kernels of 2 ms, of which 32 may be in flight, and 16 more on each of 4 streams.
    let mut stage = stage("ahead", &["3000", "2000", "4"], 1, 5_000, 32)?;
    stage.puppet.grant_until(&mut stage.program, "ready")?;
    let job = stage.puppet.wait_for_job()?;
    stage.puppet.grant(job)?;
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    stage.puppet.revoke(job)?;
    let drained = start.elapsed();
    ensure!(
        drained < Duration::from_secs(2),
        "drained in {drained:?} with the program {}",
        stage.program.stdout()
    );
    stage.out_and_in()?;
    let finished = stage.puppet.grant_to_the_end(stage.program)?;
    ensure!(finished.json()?["launches"] == 3000);
    Ok(())
}

#[test]
fn a_call_waits_for_the_gates_of_its_own_gpus_only() -> Result<()> {
    let Stage {
        machine: _machine,
        mut program,
        mut puppet,
    } = stage("two", &[], 2, 5_000, 0)?;
    puppet.grant_until(&mut program, "ready")?;
    let requested = |puppet: &Puppet| puppet.block().agent.jobs().map_or(0, |jobs| jobs.requested);

    // The second GPU's gate is closed; the first one's thread does not mind, and asks for its own.
    program.say("0\n")?;
    puppet.grant_until(&mut program, "0 returned")?;
    puppet.turn_to(1);
    ensure!(
        requested(&puppet) == 0,
        "a call on one GPU asked for another"
    );

    // And the other way round, while the first one's memory is out.
    puppet.turn_to(0);
    let arena = puppet.block().agent.usage().arena_bytes;
    puppet.set_volume(arena)?;
    puppet.swap(Direction::Out, arena)?;
    let first = requested(&puppet);
    program.say("1\n")?;
    puppet.turn_to(1);
    puppet.grant_until(&mut program, "1 returned")?;
    wait_until("the second GPU's job ends", BOUND, || {
        let jobs = puppet.block().agent.jobs();
        jobs.is_some_and(|jobs| jobs.requested == jobs.completed)
    })?;
    puppet.turn_to(0);
    ensure!(
        requested(&puppet) == first,
        "a call on one GPU asked for another"
    );

    // A copy from one to the other needs both, the first one first.
    program.say("both\n")?;
    let job = puppet.wait_for_job()?;
    ensure!(job == first + 1);
    puppet.swap(Direction::In, 0)?;
    puppet.turn_to(1);
    let second = requested(&puppet);
    puppet.turn_to(0);
    puppet.grant(job)?;
    puppet.turn_to(1);
    let both = puppet.wait_for_job()?;
    ensure!(both == second + 1);
    ensure!(!program.stdout().contains("both returned"));
    let until = Instant::now() + BOUND;
    while !program.stdout().contains("both returned") {
        // The first GPU's job may end meanwhile, as any that is idle.
        for gpu in [0, 1] {
            puppet.turn_to(gpu);
            puppet.grant_any()?;
        }
        ensure!(Instant::now() < until, "{}", program.stderr());
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn a_capture_is_left_alone_and_a_graphs_host_node_gets_its_thread() -> Result<()> {
    let mut stage = stage("graph", &[], 1, DRAIN_MS, 0)?;
    let Stage {
        program, puppet, ..
    } = &mut stage;
    puppet.grant_until(program, "ready")?;
    program.say("1")?;
    puppet.grant_until(program, "begun")?;
    let job = puppet.block().agent.jobs().context("no job")?.requested;
    let completed = |puppet: &Puppet| puppet.block().agent.jobs().map_or(0, |jobs| jobs.completed);

    // Wanted at once, idle for long: the job ends with the capture, not before.
    puppet.block().daemon.revoke(job);
    std::thread::sleep(Duration::from_millis(200));
    ensure!(completed(puppet) != job, "the job ended under a capture");
    program.say("2")?;
    puppet.revoke(job).with_context(|| program.stderr())?;
    puppet.grant_until(program, "ended")?;
    stage.out_and_in()?;

    let Stage {
        program, puppet, ..
    } = &mut stage;
    program.say("3")?;
    puppet.grant_until(program, "waiting")?;
    let job = puppet.block().agent.jobs().context("no job")?.requested;
    puppet.block().daemon.revoke(job);
    std::thread::sleep(Duration::from_millis(20));
    program.say("4")?;
    puppet.revoke(job).with_context(|| program.stderr())?;
    program.wait_for_line("done", BOUND)?;
    stage.out_and_in()?;
    stage.program.say("5")?;
    let report = stage.puppet.grant_to_the_end(stage.program)?.json()?;
    ensure!(report["wrong_words"] == 0, "{report}");
    ensure!(
        report["waited_ms"].as_u64() < Some(u64::from(DRAIN_MS / 2)),
        "{report}"
    );
    Ok(())
}
