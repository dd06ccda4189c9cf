//! A user's own manager: a service that is attached there, and what environment.d brings to all that it starts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::swapping::task;
use super::{USER, status};
use crate::machine::{Done, Machine};
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check("a user has a manager without being logged in", linger);
    report.check("rtswapctl attach --user takes a service of it", attached);
    report.check(
        "environment.d brings the agent into what the user's manager starts",
        environment,
    );
    report.check("profile.d brings it into login shells", login);
}

/// A manager starts, and a session comes, within this.
const STARTING: Duration = Duration::from_secs(20);
const JOBS: u64 = 6;
const DNN: &str =
    "/usr/bin/rtswap-simgpu /usr/bin/rtswap-dnn --memory 64MiB --period 500ms --jobs 6 --json";
const AGENT: &str = "librtswap_cuda.so";

/// The line that docs/units.md has for a file, by its beginning.
fn documented(beginning: &str) -> Result<&'static str> {
    let text = include_str!("../../../../docs/units.md");
    let mut codes = text.lines().flat_map(|line| line.split('`'));
    let line = codes.find(|code| code.starts_with(beginning));
    line.with_context(|| format!("docs/units.md has no {beginning}"))
}

/// The manager stays to the end: when the last of a user ends, logind removes what the user has in /dev/shm, the simulated GPU too.
fn linger(machine: &Machine) -> Result<()> {
    machine.run(&["loginctl", "enable-linger", USER])?.ok()?;
    machine.wait("the manager", STARTING, |machine| {
        let state = of_user(machine, "systemctl --user is-system-running")?;
        Ok(["running\n", "degraded\n"].contains(&state.stdout.as_str()))
    })
}

/// Runs a shell's words as the user, who reaches the manager.
fn of_user(machine: &Machine, script: &str) -> Result<Done> {
    let script = format!("export XDG_RUNTIME_DIR=/run/user/$(id -u); {script}");
    machine.run_as(USER, &["sh", "-euc", &script])
}

fn attached(machine: &Machine) -> Result<()> {
    let unit = "sketch";
    let folder = format!("/home/{USER}/.config/systemd");
    of_user(
        machine,
        &format!(
            "mkdir -p {folder}/user
cat > {folder}/user/{unit}.service <<'END'
[Service]
StandardOutput=truncate:/home/{USER}/{unit}.json
ExecStart={DNN}
END
systemctl --user daemon-reload
rtswapctl attach --user {unit}
systemctl --user start {unit}"
        ),
    )?
    .ok()?;
    is_task(machine, unit)?;
    is_right(machine, unit)?;
    let left = of_user(
        machine,
        &format!(
            "rtswapctl detach --user {unit} >&2; rm {folder}/user/{unit}.service; systemctl --user daemon-reload
             find {folder} -name '*rtswap*' -o -name '{unit}*'"
        ),
    )?
    .ok()?;
    ensure!(left.is_empty(), "left: {left}");
    Ok(())
}

/// Waits until the main process of the user's service is a task of that user.
fn is_task(machine: &Machine, unit: &str) -> Result<()> {
    let uid: u64 = machine.run(&["id", "-u", USER])?.ok()?.trim().parse()?;
    machine.wait("its session", STARTING, |machine| {
        let show = format!("systemctl --user show --value --property=MainPID {unit}");
        let pid: u64 = of_user(machine, &show)?.ok()?.trim().parse()?;
        let status = status(machine)?;
        let own = task(&status, &format!("rtswap-dnn-{pid}"));
        Ok(own.is_some_and(|own| own["pid"] == pid && own["uid"] == uid))
    })
}

/// Waits for the end of the user's service: all its jobs were right.
fn is_right(machine: &Machine, unit: &str) -> Result<()> {
    machine.wait("it ends", STARTING, |machine| {
        let active = of_user(machine, &format!("systemctl --user is-active {unit}"));
        Ok(active?.stdout != "active\n")
    })?;
    let report = machine.run(&["cat", &format!("/home/{USER}/{unit}.json")])?;
    let report = report.json().with_context(|| unit.to_owned())?;
    ensure!(
        report["checksum_errors"] == 0 && report["jobs"] == JOBS,
        "{unit}: {report}"
    );
    Ok(())
}

/// Also a program that does not use CUDA has the agent, and runs as without.
fn environment(machine: &Machine) -> Result<()> {
    let unit = "adhoc";
    let file = format!("/home/{USER}/.config/environment.d/50-rtswap.conf");
    let start = |unit: &str, command: &str| {
        format!(
            "systemd-run --user --quiet --unit={unit} \
                 --property=StandardOutput=truncate:/home/{USER}/{unit}.json {command}"
        )
    };
    let script = format!(
        "mkdir -p $(dirname {file}); echo '{}' > {file}
         systemctl --user daemon-reload; {}",
        documented("LD_PRELOAD=/usr/$$")?,
        start(unit, DNN)
    );
    of_user(machine, &script)?.ok()?;
    is_task(machine, unit)?;
    is_right(machine, unit)?;
    let plain = "maps";
    of_user(
        machine,
        &start(
            plain,
            "--property=RemainAfterExit=yes /bin/cat /proc/self/maps",
        ),
    )?
    .ok()?;
    machine.wait("it ends", STARTING, |machine| {
        let state = "systemctl --user show --value --property=SubState maps";
        Ok(of_user(machine, state)?.ok()?.trim() == "exited")
    })?;
    let maps = machine.run(&["cat", &format!("/home/{USER}/{plain}.json")])?;
    let maps = maps.ok()?;
    ensure!(maps.contains(AGENT), "no agent in: {maps}");
    // The agent itself loads no driver.
    ensure!(!maps.contains("libcuda"), "a driver in: {maps}");
    of_user(
        machine,
        &format!("systemctl --user stop {plain}; rm {file}; systemctl --user daemon-reload"),
    )?
    .ok()
    .map(drop)
}

/// The line of docs/units.md.
fn login(machine: &Machine) -> Result<()> {
    let line = documented("export LD_PRELOAD")?;
    let file = "/etc/profile.d/rtswap.sh";
    machine
        .shell(&format!("cat > {file} <<'END'\n{line}\nEND"))?
        .ok()?;
    let shell = |arguments: &[&str]| machine.run_as(USER, arguments)?.ok();
    let maps = "cat /proc/self/maps";
    let login = shell(&["bash", "-lc", maps])?;
    ensure!(login.contains(AGENT), "no agent in: {login}");
    let other = shell(&["bash", "-c", maps])?;
    ensure!(!other.contains(AGENT), "an agent in: {other}");
    machine.run(&["rm", file])?.ok().map(drop)
}
