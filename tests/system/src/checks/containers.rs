//! Containers that get the agent as a device: root's and an ordinary user's, which do not fit together.

use std::process::Child;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::podman::{self, Container, DEVICE, tasks};
use super::swapping::finish;
use super::{USER, is_another, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

/// `has_old_image` says whether there is a Debian 11 at [`OLD`].
pub(super) fn check(report: &mut Report<'_>, has_old_image: bool) {
    report.check("rtswapctl cdi generate describes the agent", generate);
    let started = report.check("podman runs root's container and a user's", |machine| {
        podman::make_image(machine, "own", "/")?;
        start(machine, "own", JOBS)
    });
    if let Some(containers) = started {
        report.check(
            "both swap, and the daemon knows whose they are",
            podman::have_swapped,
        );
        report.check(
            "killed by SIGKILL, the daemon comes back and so do the containers",
            crash,
        );
        report.check("every result of both containers is right", |_| {
            finish_both(containers, JOBS)
        });
    }
    if has_old_image {
        report.check(
            "in an image of Debian 11, root's and a user's, both swap and every result is right",
            old_image,
        );
        report.check(
            "the daemon's folder is mounted elsewhere, and RTSWAP_RUNTIME_DIR says where",
            elsewhere,
        );
    }
    report.check("what was made for containers is removed", |machine| {
        remove(machine, has_old_image)
    });
}

const NAMES: [&str; 2] = ["root's", "the user's"];
/// Long enough for a crash in the middle.
const JOBS: u64 = 10;
/// Long enough for both to swap.
const FEW: u64 = 6;
const SPECIFICATION: &str = "/etc/cdi/rtswap.json";
/// As boot.sh mounts it.
const OLD: &str = "/srv/image";

fn generate(machine: &Machine) -> Result<()> {
    let script = format!("mkdir -p /etc/cdi && rtswapctl cdi generate --output {SPECIFICATION}");
    machine.shell(&script)?.ok()?;
    let spec = machine.run(&["cat", SPECIFICATION])?.json()?;
    ensure!(spec["kind"] == "rtswap.org/agent", "{spec}");
    Ok(())
}

/// Starts a container of root and one of the ordinary user.
fn start(machine: &Machine, image: &str, jobs: u64) -> Result<Vec<Child>> {
    // The user's cannot make the places of mounts in an image of root's, which the first does.
    let users = ["root", USER].into_iter().zip(1..);
    let started = users.map(|(user, sessions)| {
        let container = Container {
            user,
            image,
            options: &[DEVICE],
            jobs,
        };
        container.start(machine, sessions)
    });
    started.collect()
}

fn finish_both(containers: Vec<Child>, jobs: u64) -> Result<()> {
    let mut named = containers.into_iter().zip(NAMES);
    named.try_for_each(|(container, name)| finish(container, name, jobs))
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

fn old_image(machine: &Machine) -> Result<()> {
    machine
        .shell(&format!("ls {OLD}/lib/x86_64-linux-gnu/libc-2.31.so"))?
        .ok()?;
    podman::make_image(machine, "old", OLD)?;
    let containers = start(machine, "old", FEW)?;
    podman::have_swapped(machine)?;
    finish_both(containers, FEW)
}

/// As without a device: the agent, the folder and the variables are given one by one.
fn elsewhere(machine: &Machine) -> Result<()> {
    let agent = "/usr/lib/x86_64-linux-gnu/librtswap_cuda.so";
    let container = Container {
        user: "root",
        image: "old",
        options: &[
            &format!("--volume={agent}:/opt/agent.so:ro --env=LD_PRELOAD=/opt/agent.so"),
            "--volume=/run/rtswap:/opt/daemon:ro --env=RTSWAP_RUNTIME_DIR=/opt/daemon",
        ],
        jobs: 1,
    };
    finish(container.start(machine, 1)?, NAMES[0], 1)
}

fn remove(machine: &Machine, has_old_image: bool) -> Result<()> {
    let images: &[_] = if has_old_image {
        &["own", "old"]
    } else {
        &["own"]
    };
    for image in images {
        podman::remove_image(machine, image)?;
    }
    machine
        .shell(&format!("rm -r /run/images {SPECIFICATION}"))?
        .ok()?;
    machine.wait("no memory is left", Duration::from_secs(10), |machine| {
        let status = status(machine)?;
        let used = status["gpus"][0]["used_bytes"].as_u64();
        ensure!(used == Some(0), "{status}");
        Ok(true)
    })
}
