//! Kinds of services under `rtswapctl attach`: one whose user is drawn at each start, an instance of a template and the template
//! itself, one of a user's manager, and one that crashes again and again.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::swapping::{self, finish, task};
use super::{USER, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "services with DynamicUser=, of a template and of an instance are tasks of their users",
        kinds,
    );
    report.check(
        "a service that crashes again and again leaves nothing behind",
        crash_loop,
    );
}

const MEMORY: &str = "64MiB";
const JOBS: u64 = 16;
/// Longer than the crashes take.
const MANY: u64 = 30;
/// A session comes within this, also beside another run's lane.
const STARTING: Duration = Duration::from_secs(20);
/// How often the service crashes at least.
const CRASHES: u64 = 5;

/// The template's unit, an instance of it that is attached by itself, and one that is not.
const TEMPLATE: &str = "chat@";
const NAMED: &str = "chat@blue";
const UNNAMED: &str = "chat@red";
const DYNAMIC: &str = "drifter";

/// Each runs the workload and leaves its report under its name.
fn kinds(machine: &Machine) -> Result<()> {
    let workload = format!(
        "/usr/bin/rtswap-simgpu /usr/bin/rtswap-dnn --memory {MEMORY} --period 500ms --jobs {JOBS} --json"
    );
    // Nobody but root may use the simulated GPU of another user.
    machine
        .shell(&format!(
            "cat > /etc/systemd/system/{DYNAMIC}.service <<'END'
[Service]
DynamicUser=yes
RuntimeDirectory=%N
Environment=SIMGPU_DIR=/run/%N
StandardOutput=truncate:/srv/shared/%N.json
ExecStart={workload}
END
cat > /etc/systemd/system/{TEMPLATE}.service <<'END'
[Service]
User={USER}
StandardOutput=truncate:/srv/shared/%N.json
ExecStart={workload}
END
systemctl daemon-reload
for unit in {DYNAMIC} {TEMPLATE} {NAMED}; do rtswapctl attach $unit; done
systemctl start {DYNAMIC} {NAMED} {UNNAMED}"
        ))?
        .ok()?;
    let tester: u64 = machine.run(&["id", "-u", USER])?.ok()?.trim().parse()?;
    for unit in [DYNAMIC, NAMED, UNNAMED] {
        let own = task_of(machine, unit)?;
        let name = if unit == NAMED {
            "chat-blue".to_owned()
        } else {
            format!("rtswap-dnn-{}", own["pid"])
        };
        ensure!(own["name"] == name, "{unit}: {own}");
        let uid = number(machine, unit, "UID")?;
        ensure!(own["uid"] == uid, "{unit} of {uid}: {own}");
        ensure!((uid == tester) == (unit != DYNAMIC), "{unit}: {uid}");
    }
    for unit in [DYNAMIC, NAMED, UNNAMED] {
        machine.wait("it ends", Duration::from_secs(30), |machine| {
            let active = machine.run(&["systemctl", "is-active", unit])?;
            Ok(active.stdout != "active\n")
        })?;
        let report = machine.run(&["cat", &format!("/srv/shared/{unit}.json")])?;
        let report = report.json()?;
        ensure!(
            report["checksum_errors"] == 0 && report["jobs"] == JOBS,
            "{unit}: {report}"
        );
    }
    for unit in [DYNAMIC, TEMPLATE, NAMED] {
        machine.run(&["rtswapctl", "detach", unit])?.ok()?;
    }
    remove(machine, &[DYNAMIC, TEMPLATE])
}

/// The task of a service's main process.
fn task_of(machine: &Machine, unit: &str) -> Result<Value> {
    let mut found = None;
    machine.wait("its session", STARTING, |machine| {
        let pid = number(machine, unit, "MainPID")?;
        // Root alone sees the tasks of all users.
        let status = machine.run(&["rtswapctl", "status", "--json"])?.json()?;
        let tasks = status["tasks"].as_array().context("no tasks")?;
        found = tasks
            .iter()
            .find(|task| pid != 0 && task["pid"] == pid)
            .cloned();
        Ok(found.is_some())
    })?;
    found.context("no task")
}

/// A property of a service that is a number.
fn number(machine: &Machine, unit: &str, name: &str) -> Result<u64> {
    let property = format!("--property={name}");
    let said = machine.run(&["systemctl", "show", "--value", &property, unit])?;
    Ok(said.ok()?.trim().parse()?)
}

/// It is killed while it holds memory, beside a program that goes on.
fn crash_loop(machine: &Machine) -> Result<()> {
    let unit = "crasher";
    let daemon = main_pid(machine)?;
    let before = status(machine)?["tasks"].as_array().map(Vec::len);
    let neighbour = swapping::command(machine, "neighbour", MEMORY, "500ms", MANY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("nsenter")?;
    machine
        .shell(&format!(
            "cat > /etc/systemd/system/{unit}.service <<'END'
[Unit]
StartLimitIntervalSec=0
[Service]
User={USER}
Restart=always
RestartSec=200ms
ExecStart=/bin/sh -c 'timeout --signal=KILL 1 rtswap-simgpu rtswap-dnn --memory {MEMORY} --period 100ms; exit 1'
END
systemctl daemon-reload
rtswapctl attach {unit}
systemctl start {unit}"
        ))?
        .ok()?;
    machine.wait("it holds memory", STARTING, |machine| {
        let status = status(machine)?;
        let own = task(&status, unit).context("no task")?;
        Ok(own["resident_bytes"].as_u64() > Some(0))
    })?;
    let mut restarts = 0;
    machine.wait("it crashes", Duration::from_secs(30), |machine| {
        restarts = number(machine, unit, "NRestarts")?;
        Ok(restarts >= CRASHES)
    })?;
    let during = status(machine)?;
    let tasks = during["tasks"].as_array().map(Vec::len);
    // The neighbour is the second.
    ensure!(
        tasks == before.map(|before| before + 2),
        "tasks of earlier starts: {during}"
    );
    machine.run(&["systemctl", "stop", unit])?.ok()?;
    machine.wait("its memory is free", Duration::from_secs(5), |machine| {
        let status = status(machine)?;
        let own = task(&status, unit).context("no task")?;
        Ok(own["pid"] == 0 && own["resident_bytes"] == 0 && own["swapped_bytes"] == 0)
    })?;
    machine.run(&["rtswapctl", "detach", unit])?.ok()?;
    finish(neighbour, "neighbour", MANY)?;
    let mut after = Value::Null;
    machine
        .wait("nothing is left", Duration::from_secs(5), |machine| {
            after = status(machine)?;
            let is_empty = after["gpus"][0]["used_bytes"] == 0;
            Ok(is_empty && after["tasks"].as_array().map(Vec::len) == before)
        })
        .with_context(|| after.to_string())?;
    ensure!(main_pid(machine)? == daemon, "the daemon is another");
    remove(machine, &[unit])
}

/// Removes the unit files of services that are detached, whose other files are gone.
fn remove(machine: &Machine, units: &[&str]) -> Result<()> {
    for unit in units {
        let left = machine
            .shell(&format!(
                "rm /etc/systemd/system/{unit}.service
                 find /etc/systemd /etc/rtswap /run/systemd/system -name '*rtswap.conf' -path '*{unit}*' -o -name '{unit}*'"
            ))?
            .ok()?;
        ensure!(left.is_empty(), "left: {left}");
    }
    machine.run(&["systemctl", "daemon-reload"])?.ok().map(drop)
}
