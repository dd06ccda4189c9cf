//! Upgrading and downgrading by name, removing and purging.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{PACKAGES, is_another, main_pid, repository, status, swapping};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "an upgrade keeps an edited configuration, a running program and its session",
        upgrade,
    );
    report.check(
        "a downgrade to the version before keeps an edited configuration",
        downgrade,
    );
    report.check(
        "apt remove leaves no unit and no bus name, and the configuration",
        remove,
    );
    report.check("apt purge leaves no file", purge);
}

const CONFIGURATION: &str = "/etc/rtswap/rtswapd.toml";
const EDIT: &str = "# edited by the administrator";

/// Long enough for an installation in the middle, at 3 s each.
const JOBS: u64 = 12;

fn upgrade(machine: &Machine) -> Result<()> {
    let version = version(machine)?;
    repository::publish_next(machine)?;
    machine
        .shell(&format!("echo '{EDIT}' >> {CONFIGURATION}"))?
        .ok()?;
    let program = swapping::program(machine, "traveller", "64MiB", JOBS)?;
    let session = |machine: &Machine| {
        let status = status(machine)?;
        Ok(swapping::task(&status, "traveller").is_some_and(|task| task["pid"] != 0))
    };
    machine.wait("its session", Duration::from_secs(10), session)?;
    let before = main_pid(machine)?;
    machine
        .run(
            &[
                &["apt-get", "install", "--yes", "--only-upgrade"],
                &PACKAGES[..],
            ]
            .concat(),
        )?
        .ok()?;
    let now = self::version(machine)?;
    ensure!(now == format!("{version}.1"), "{version} became {now}");
    ensure!(is_another(machine, before)?, "the old daemon runs on");
    machine.wait("its session is back", Duration::from_secs(10), session)?;
    machine
        .run(&["grep", "--quiet", EDIT, CONFIGURATION])?
        .ok()?;
    swapping::finish(program, "traveller", JOBS)
}

fn downgrade(machine: &Machine) -> Result<()> {
    let newer = version(machine)?;
    let older = newer
        .strip_suffix(".1")
        .context("there was no upgrade before")?;
    let before = main_pid(machine)?;
    machine
        .shell(&format!(
            "apt-get install --yes --allow-downgrades {}",
            PACKAGES
                .map(|package| format!("{package}={older}"))
                .join(" ")
        ))?
        .ok()?;
    let now = version(machine)?;
    ensure!(now == older, "{newer} became {now}");
    ensure!(is_another(machine, before)?, "the newer daemon runs on");
    machine
        .run(&["grep", "--quiet", EDIT, CONFIGURATION])?
        .ok()?;
    status(machine).map(drop)
}

/// The version of the package that is installed.
fn version(machine: &Machine) -> Result<String> {
    machine
        .run(&["dpkg-query", "-W", "-f", "${Version}", "rtswap"])?
        .ok()
}

fn remove(machine: &Machine) -> Result<()> {
    machine
        .run(&[&["apt-get", "remove", "--yes"], &PACKAGES[..]].concat())?
        .ok()?;
    let active = machine.run(&["systemctl", "is-active", "rtswapd"])?;
    ensure!(active.code != Some(0), "the unit is {}", active.stdout);
    let names = machine.run(&["busctl", "list", "--no-pager"])?.ok()?;
    ensure!(!names.contains("rtswap"), "{names}");
    machine
        .run(&["grep", "--quiet", EDIT, CONFIGURATION])?
        .ok()?;
    let processes = machine.run(&["pgrep", "rtswapd"])?;
    ensure!(
        processes.code == Some(1),
        "it runs on: {}",
        processes.stdout
    );
    Ok(())
}

/// What is not the packages': the machine's own names, the user's simulated GPU, the installer's and systemd's logs, where
/// the administrator has the packages from.
const FOREIGN: [&str; 4] = [
    "/srv/shared",
    "/dev/shm",
    "/var/log",
    "/etc/apt/sources.list.d",
];

fn purge(machine: &Machine) -> Result<()> {
    // As an administrator and a crashed daemon would have left them.
    machine
        .shell("mkdir -p /etc/rtswap/tasks.d /var/lib/rtswap; touch /etc/rtswap/tasks.d/a.toml /var/lib/rtswap/b")?
        .ok()?;
    machine
        .run(&[&["apt-get", "purge", "--yes"], &PACKAGES[..]].concat())?
        .ok()?;
    let left = machine
        .shell("find / -xdev -iname '*rtswap*' -print; find /run /tmp /var/tmp -iname '*rtswap*' -print")?
        .ok()?;
    let left: Vec<&str> = left
        .lines()
        .filter(|path| !FOREIGN.iter().any(|folder| path.starts_with(folder)))
        .collect();
    ensure!(left.is_empty(), "left: {}", left.join(" "));
    let units = machine.run(&["systemctl", "list-unit-files", "--no-legend", "rtswap*"])?;
    ensure!(units.stdout.is_empty(), "{}", units.stdout);
    let dpkg = machine.run(&["dpkg-query", "-W", "*rtswap*"])?;
    ensure!(dpkg.code != Some(0), "dpkg knows {}", dpkg.stdout);
    Ok(())
}
