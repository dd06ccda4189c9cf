//! Services that `rtswapctl attach` has run with the agent: two that do not fit together, and one that leaves while it idles.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::swapping::task;
use super::{USER, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check("rtswapctl attach takes two services", attach);
    report.check("one that idles leaves the GPU within a second", leaves);
    report.check(
        "both run though they do not fit together, and every result is right",
        both,
    );
    report.check("rtswapctl detach leaves no file", detach);
}

const UNITS: [&str; 2] = ["painter", "writer"];
/// Of the 768 MiB of the simulated GPU.
const MEMORY: u64 = 440 << 20;
/// A context takes less.
const CONTEXT: u64 = 64 << 20;
const JOBS: u64 = 8;
const IDLE: Duration = Duration::from_millis(500);
/// After its time a task has left within this.
const LEAVING: Duration = Duration::from_secs(1);
/// A command in the system takes less.
const ASKING: Duration = Duration::from_millis(500);

fn attach(machine: &Machine) -> Result<()> {
    for (unit, option) in [(UNITS[0], "--idle-after 500ms"), (UNITS[1], "")] {
        machine
            .shell(&format!(
                "cat > /etc/systemd/system/{unit}.service <<'END'
[Service]
User={USER}
StandardOutput=truncate:/srv/shared/{unit}.json
ExecStart=/usr/bin/rtswap-simgpu /usr/bin/rtswap-dnn --memory {MEMORY} --period 3s --jobs {JOBS} --json
END
systemctl daemon-reload
rtswapctl attach {unit} {option}"
            ))?
            .ok()?;
    }
    let before = status(machine)?;
    ensure!(
        UNITS.iter().all(|unit| task(&before, unit).is_some()),
        "registered: {before}"
    );
    start(machine, UNITS[0])
}

fn start(machine: &Machine, unit: &str) -> Result<()> {
    machine.run(&["systemctl", "start", unit])?.ok()?;
    machine.wait("its session", Duration::from_secs(20), |machine| {
        Ok(count(machine, unit, "jobs")? > 0)
    })
}

fn count(machine: &Machine, unit: &str, key: &str) -> Result<u64> {
    let status = status(machine)?;
    let task = task(&status, unit).with_context(|| format!("no task {unit}"))?;
    Ok(task[key].as_u64().unwrap_or_default())
}

/// By itself on the GPU, between two jobs.
fn leaves(machine: &Machine) -> Result<()> {
    let unit = UNITS[0];
    let jobs = count(machine, unit, "jobs")?;
    machine.wait("another job", Duration::from_secs(10), |machine| {
        Ok(count(machine, unit, "jobs")? > jobs)
    })?;
    let ended = Instant::now();
    machine.wait("it leaves", Duration::from_secs(10), |machine| {
        let is_out = count(machine, unit, "swapped_bytes")? >= MEMORY;
        Ok(is_out && count(machine, unit, "resident_bytes")? < CONTEXT)
    })?;
    let took = ended.elapsed();
    ensure!(took <= IDLE + LEAVING + ASKING, "it left after {took:?}");
    Ok(())
}

fn both(machine: &Machine) -> Result<()> {
    start(machine, UNITS[1])?;
    machine.wait("both leave", Duration::from_secs(30), |machine| {
        Ok(count(machine, UNITS[1], "swap_out_bytes_total")? > 0)
    })?;
    machine.wait("both end", Duration::from_secs(90), |machine| {
        let active = machine.run(&["systemctl", "is-active", UNITS[0], UNITS[1]])?;
        Ok(!active.stdout.lines().any(|state| state == "active"))
    })?;
    for unit in UNITS {
        let text = machine.run(&["cat", &format!("/srv/shared/{unit}.json")])?;
        let report: Value = text.json().with_context(|| unit.to_owned())?;
        ensure!(
            report["checksum_errors"] == 0 && report["jobs"] == JOBS,
            "{unit}: {report}"
        );
    }
    Ok(())
}

fn detach(machine: &Machine) -> Result<()> {
    for unit in UNITS {
        machine.run(&["rtswapctl", "detach", unit])?.ok()?;
    }
    let left = machine
        .shell("find /etc/systemd /etc/rtswap /run/systemd -name '*rtswap.conf' -o -name 'painter*' -o -name 'writer*'")?
        .ok()?;
    let units = UNITS.map(|unit| format!("/etc/systemd/system/{unit}.service"));
    let others: Vec<_> = left
        .lines()
        .filter(|path| !units.iter().any(|unit| unit == path))
        .collect();
    ensure!(others.is_empty(), "left: {}", others.join(" "));
    let status = status(machine)?;
    ensure!(
        UNITS.iter().all(|unit| task(&status, unit).is_none()),
        "still registered: {status}"
    );
    machine
        .shell(&format!(
            "rm {} && systemctl daemon-reload",
            units.join(" ")
        ))?
        .ok()
        .map(drop)
}
