//! Containers that get the agent as a device: root's and an ordinary user's, which do not fit together.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::swapping::finish;
use super::{USER, is_another, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check("rtswapctl cdi generate describes the agent", generate);
    let Some(containers) = report.check("podman runs root's container and a user's", start) else {
        return;
    };
    report.check("both swap, and the daemon knows whose they are", swap);
    report.check(
        "killed by SIGKILL, the daemon comes back and so do the containers",
        crash,
    );
    report.check("every result of both containers is right", |_| {
        let mut named = containers.into_iter().zip(NAMES);
        named.try_for_each(|(container, name)| finish(container, name, JOBS))
    });
    report.check("what was made for containers is removed", remove);
}

const NAMES: [&str; 2] = ["root's", "the user's"];
/// Of the 768 MiB of the simulated GPU.
const MEMORY: &str = "440MiB";
/// Long enough for a crash in the middle, at 3 s each.
const JOBS: u64 = 10;
const DEVICE: &str = "/etc/cdi/rtswap.json";
/// The image: the system's own files, and above them in memory what containers write.
const IMAGE: &str = "/run/image";

fn generate(machine: &Machine) -> Result<()> {
    let image = format!(
        "mkdir -p /etc/cdi && rtswapctl cdi generate --output {DEVICE}
         mkdir -p {IMAGE}/upper {IMAGE}/work {IMAGE}/root
         printf '[containers]\\npids_limit = 0\\n' > {IMAGE}/containers.conf
         mount -t overlay -o lowerdir=/,upperdir={IMAGE}/upper,workdir={IMAGE}/work overlay {IMAGE}/root"
    );
    machine.shell(&image)?.ok()?;
    let spec = machine.run(&["cat", DEVICE])?.json()?;
    ensure!(spec["kind"] == "rtswap.org/agent", "{spec}");
    Ok(())
}

fn start(machine: &Machine) -> Result<Vec<Child>> {
    // The user's cannot make the places of mounts in an image of root's, which the first does.
    let mut containers = Vec::new();
    for user in ["root", USER] {
        let sessions = containers.len() + 1;
        let container = container(machine, user)?;
        let came = machine.wait("its session", Duration::from_secs(30), |machine| {
            Ok(tasks(machine)?.len() == sessions)
        });
        if let Err(error) = came {
            let unit = format!("container-of-{user}");
            machine.run(&["systemctl", "kill", &unit])?;
            let said = container.wait_with_output()?.stderr;
            return Err(error).context(String::from_utf8_lossy(&said).into_owned());
        }
        containers.push(container);
    }
    Ok(containers)
}

/// Starts the workload in a container of `user`. The simulated GPU tells processes apart by their pid, so that they share
/// the system's. `--privileged`, the limits and the host's
/// network leave out what root may not set up in a system like this one; the device is brought in all the same.
fn container(machine: &Machine, user: &str) -> Result<Child> {
    let tester = machine.run(&["id", "-u", USER])?.ok()?;
    let folder = format!("SIMGPU_DIR=/dev/shm/simgpu-{}", tester.trim());
    let (uid, unit) = (
        format!("--uid={user}"),
        format!("--unit=container-of-{user}"),
    );
    let runtime = format!("--property=RuntimeDirectory=container-of-{user}");
    let place = format!("--setenv=XDG_RUNTIME_DIR=/run/container-of-{user}");
    let configuration = format!("--setenv=CONTAINERS_CONF={IMAGE}/containers.conf");
    let home = format!("--setenv=HOME=/run/container-of-{user}");
    let [storage, state] =
        ["root", "runroot"].map(|name| format!("--{name}=/run/container-of-{user}/{name}"));
    let service = [
        "systemd-run",
        "--quiet",
        "--pipe",
        "--wait",
        "--collect",
        "--property=Delegate=yes",
        &configuration,
        &unit,
        &uid,
        &runtime,
        &place,
        &home,
    ];
    let podman = [
        "podman",
        "--cgroup-manager=cgroupfs",
        "--storage-driver=vfs",
        &storage,
        &state,
        "run",
        "--rm",
        "--network=host",
        "--pid=host",
        "--privileged",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1024:1024",
        "--device=rtswap.org/agent=all",
        "--volume=/dev/shm:/dev/shm",
        "--env=LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/rtswap-simgpu",
        "--env",
        &folder,
        "--rootfs",
        "/run/image/root",
    ];
    let jobs = JOBS.to_string();
    let workload = [
        "rtswap-dnn",
        "--memory",
        MEMORY,
        "--period",
        "3s",
        "--jobs",
        &jobs,
        "--json",
    ];
    let mut command = machine.command(&[&service[..], &podman, &workload].concat());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.context("nsenter")
}

/// The tasks that have a process.
fn tasks(machine: &Machine) -> Result<Vec<Value>> {
    let status = machine.run(&["rtswapctl", "status", "--json"])?.json()?;
    let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
    Ok(tasks.into_iter().filter(|task| task["pid"] != 0).collect())
}

fn swap(machine: &Machine) -> Result<()> {
    let mut uids = Vec::new();
    machine.wait("both swapped", Duration::from_secs(30), |machine| {
        let tasks = tasks(machine)?;
        uids = tasks.iter().map(|task| task["uid"].clone()).collect();
        let swapped = |task: &Value| task["swap_out_bytes_total"].as_u64() > Some(0);
        Ok(tasks.len() == 2 && tasks.iter().all(swapped))
    })?;
    let tester: u64 = machine.run(&["id", "-u", USER])?.ok()?.trim().parse()?;
    uids.sort_by_key(Value::as_u64);
    ensure!(uids == [0, tester], "users {uids:?}");
    Ok(())
}

fn crash(machine: &Machine) -> Result<()> {
    let before = main_pid(machine)?;
    machine.run(&["kill", "-KILL", &before.to_string()])?.ok()?;
    machine.wait("another daemon", Duration::from_secs(10), |machine| {
        is_another(machine, before)
    })?;
    machine.wait("both sessions", Duration::from_secs(10), |machine| {
        Ok(tasks(machine)?.len() == 2)
    })
}

fn remove(machine: &Machine) -> Result<()> {
    machine
        .shell(&format!("umount {IMAGE}/root && rm -rf {IMAGE} {DEVICE}"))?
        .ok()?;
    let status = status(machine)?;
    let used = status["gpus"][0]["used_bytes"].as_u64();
    ensure!(used == Some(0), "{status}");
    Ok(())
}
