//! The driver's files are replaced, as an upgrade does, while the daemon and a program have them open.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::swapping::{self, finish, task};
use super::{main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "a driver that is replaced under a running program serves it on, and new ones have the new",
        replaced,
    );
}

/// Of the 768 MiB of the simulated GPU: two do not fit.
const MEMORY: &str = "440MiB";
const JOBS: u64 = 5;
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu/rtswap-simgpu";

fn replaced(machine: &Machine) -> Result<()> {
    let daemon = main_pid(machine)?;
    let old = swapping::program(machine, "before", MEMORY, JOBS)?;
    let first = library_of(machine, "before")?;
    machine
        .shell(&format!(
            "cd {FOLDER}
             for file in libsimgpu_cuda.so libsimgpu_nvml.so; do
                 cp -p $file $file.new; mv $file.new $file
             done"
        ))?
        .ok()?;
    let new = swapping::program(machine, "after", MEMORY, JOBS)?;
    let second = library_of(machine, "after")?;
    ensure!(first != second, "both have {first}");
    let kept = library_of(machine, "before")?;
    ensure!(kept == first, "the first had {first} and has {kept}");
    machine.wait("both swapped", Duration::from_secs(30), |machine| {
        let status = status(machine)?;
        let swapped = |name| {
            let total = task(&status, name).and_then(|task| task["swap_out_bytes_total"].as_u64());
            total > Some(0)
        };
        Ok(swapped("before") && swapped("after"))
    })?;
    finish(old, "before", JOBS)?;
    finish(new, "after", JOBS)?;
    machine.wait("no memory is left", Duration::from_secs(10), |machine| {
        let status = status(machine)?;
        Ok(status["gpus"][0]["used_bytes"] == 0)
    })?;
    ensure!(main_pid(machine)? == daemon, "the daemon is another");
    Ok(())
}

/// The inode of the driver that a task's process has mapped, once it has.
fn library_of(machine: &Machine, name: &str) -> Result<String> {
    let mut inode = String::new();
    machine.wait("its driver", Duration::from_secs(20), |machine| {
        let status = status(machine)?;
        let pid = &task(&status, name).context("no task")?["pid"];
        let maps = format!("awk '/libsimgpu_cuda/ {{ print $5; exit }}' /proc/{pid}/maps");
        inode = machine.shell(&maps)?.ok()?;
        Ok(!inode.is_empty())
    })?;
    Ok(inode)
}
