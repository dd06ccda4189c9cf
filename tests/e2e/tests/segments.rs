//! PyTorch's expandable segments: memory that may be exported swaps until it is.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};

const BOUND: Duration = Duration::from_mins(2);
const MIB: u64 = 1 << 20;
const SEGMENT: u64 = 20 * MIB;

fn machine() -> Result<Machine> {
    Machine::new(MachineOptions {
        memory_mib: 512,
        link_gib_per_s: 8.0,
        chunk_mib: 8,
        ..MachineOptions::default()
    })
}

/// 320 MiB in segments, gone through so many times.
fn start(machine: &Machine, seed: u32, passes: u32, exported: bool) -> Result<Program> {
    let program = probe("segments", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.preloaded(program);
    command.args(["320", &seed.to_string(), &passes.to_string()]);
    command.args(exported.then_some("export"));
    Program::start(command)
}

fn finish(program: Program) -> Result<()> {
    let finished = program.finish(BOUND)?;
    let ok = finished.status.success() && finished.stdout.ends_with("ok\n");
    ensure!(
        ok,
        "{}: {}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    Ok(())
}

#[test]
fn two_processes_that_do_not_fit_both_finish() -> Result<()> {
    let machine = machine()?;
    let mut daemon = machine.daemon()?;
    let mut programs = [start(&machine, 1, 3, false)?, start(&machine, 2, 3, false)?];
    let mut moved = [0; 2];
    while programs.iter_mut().any(Program::is_running) {
        for (program, moved) in programs.iter().zip(&mut moved) {
            *moved = machine
                .counters(program.pid())
                .map_or(*moved, |it| it.d2h_bytes);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for program in programs {
        finish(program).with_context(|| daemon.stderr())?;
    }
    // Beside what the programs themselves copy: 320 MiB in each of three passes.
    let own = 2 * 3 * 320 * MIB;
    let moved: u64 = moved.iter().sum();
    ensure!(moved > own, "nothing was swapped: {moved}");
    ensure!(daemon.is_running());
    Ok(())
}

#[test]
fn what_is_exported_stays_and_status_says_so() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    let mut program = start(&machine, 3, 1, true)?;
    program.wait_for_line("exported", BOUND)?;
    let kept = || {
        let status = machine.status().unwrap_or_default();
        let process = &status["processes"][0];
        (
            process["kept_for_processes_bytes"].as_u64(),
            process["kept_for_devices_bytes"].as_u64(),
        )
    };
    wait_until("status says what stays", BOUND, || {
        kept() == (Some(SEGMENT), Some(0))
    })
    .with_context(|| format!("{:?}: {}", kept(), daemon.stderr()))?;
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.arg("status");
    let text = Program::start(command)?.finish(BOUND)?.stdout;
    ensure!(text.contains("20 MiB stay for other processes"), "{text}");
    program.say("\n")?;
    finish(program)
}
