//! The workload in a container, started by podman as root or as an ordinary user.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::USER;
use crate::machine::Machine;

/// Where the images are mounted, each with what containers write to it in memory.
const IMAGES: &str = "/run/images";
/// Of the 768 MiB of the simulated GPU.
const MEMORY: &str = "440MiB";
/// The option that brings the agent in.
pub(super) const DEVICE: &str = "--device=rtswap.org/agent=all";

/// A container to start.
pub(super) struct Container<'a> {
    /// The user that runs podman.
    pub(super) user: &'a str,
    /// The name that [`make_image`] was given.
    pub(super) image: &'a str,
    /// Options of `podman run`; [`DEVICE`] is one.
    pub(super) options: &'a [&'a str],
    /// How many jobs the workload does, one in 3 s.
    pub(super) jobs: u64,
}

/// Makes an image of the folder `lower`, which stays as it is. Podman 5 makes a missing /etc/mtab, which an ordinary user may not in an
/// image of root's.
pub(super) fn make_image(machine: &Machine, name: &str, lower: &str) -> Result<()> {
    let folder = format!("{IMAGES}/{name}");
    let script = format!(
        "mkdir -p {folder}/upper {folder}/work {folder}/root
         printf '[containers]\\npids_limit = 0\\n' > {IMAGES}/containers.conf
         mount -t overlay -o lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work overlay {folder}/root
         [ -L {folder}/root/etc/mtab ] || ln -s /proc/self/mounts {folder}/root/etc/mtab"
    );
    machine.shell(&script)?.ok().map(drop)
}

/// Removes what [`make_image`] made under that name.
pub(super) fn remove_image(machine: &Machine, name: &str) -> Result<()> {
    let folder = format!("{IMAGES}/{name}");
    let script = format!("umount {folder}/root && rm -rf {folder}");
    machine.shell(&script)?.ok().map(drop)
}

impl Container<'_> {
    /// Starts the workload in it, and waits until the daemon knows as many processes as `sessions`.
    pub(super) fn start(&self, machine: &Machine, sessions: usize) -> Result<Child> {
        let mut command = machine.command(&[]);
        command.args(self.arguments(machine)?);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("nsenter")?;
        let came = machine.wait("its session", Duration::from_secs(30), |machine| {
            Ok(tasks(machine)?.len() == sessions)
        });
        if let Err(error) = came {
            machine.run(&["systemctl", "kill", &self.unit()])?;
            let said = child.wait_with_output()?.stderr;
            return Err(error).context(String::from_utf8_lossy(&said).into_owned());
        }
        Ok(child)
    }

    fn unit(&self) -> String {
        format!("container-of-{}", self.user)
    }

    /// The simulated GPU tells processes apart by their pid, so that they share the system's. `--privileged`, the limits and
    /// the host's network leave out what root may not set up in a system like this one; the device is brought in all the same.
    fn arguments(&self, machine: &Machine) -> Result<Vec<String>> {
        let tester = machine.run(&["id", "-u", USER])?.ok()?;
        let unit = self.unit();
        let run = format!("/run/{unit}");
        let service = [
            "systemd-run --quiet --pipe --wait --collect --property=Delegate=yes".to_owned(),
            format!("--unit={unit} --uid={}", self.user),
            format!("--property=RuntimeDirectory={unit}"),
            format!("--setenv=XDG_RUNTIME_DIR={run} --setenv=HOME={run}"),
            format!("--setenv=CONTAINERS_CONF={IMAGES}/containers.conf"),
        ];
        let podman = [
            "podman --cgroup-manager=cgroupfs --storage-driver=vfs".to_owned(),
            format!("--root={run}/root --runroot={run}/runroot"),
            "run --rm --network=host --pid=host --privileged".to_owned(),
            "--ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024".to_owned(),
            "--volume=/dev/shm:/dev/shm --volume=/usr/bin/rtswap-dnn:/usr/bin/rtswap-dnn:ro"
                .to_owned(),
            format!("--volume={SIMGPU}:{SIMGPU}:ro --env=LD_LIBRARY_PATH={SIMGPU}"),
            format!("--env=SIMGPU_DIR=/dev/shm/simgpu-{}", tester.trim()),
            self.options.join(" "),
            format!("--rootfs {IMAGES}/{}/root", self.image),
        ];
        let workload = format!(
            "rtswap-dnn --memory {MEMORY} --period 3s --jobs {} --json",
            self.jobs
        );
        let words = [&service[..], &podman, &[workload]].concat().join(" ");
        Ok(words.split_whitespace().map(str::to_owned).collect())
    }
}

/// Where the package of the simulated GPU has its libraries.
const SIMGPU: &str = "/usr/lib/x86_64-linux-gnu/rtswap-simgpu";

/// The tasks that have a process.
pub(super) fn tasks(machine: &Machine) -> Result<Vec<Value>> {
    let status = machine.run(&["rtswapctl", "status", "--json"])?.json()?;
    let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
    Ok(tasks.into_iter().filter(|task| task["pid"] != 0).collect())
}

/// Waits until the container of root and that of the ordinary user have both swapped, and checks whose they are.
pub(super) fn have_swapped(machine: &Machine) -> Result<()> {
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
