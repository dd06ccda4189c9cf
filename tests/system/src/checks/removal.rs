//! Reinstalling, removing and purging.

use anyhow::{Result, ensure};

use super::status;
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "reinstalling keeps an edited configuration and restarts the daemon",
        reinstall,
    );
    report.check(
        "apt remove leaves no unit and no bus name, and the configuration",
        remove,
    );
    report.check("apt purge leaves no file", purge);
}

const CONFIGURATION: &str = "/etc/rtswap/rtswapd.toml";
const EDIT: &str = "# edited by the administrator";

fn reinstall(machine: &Machine) -> Result<()> {
    machine
        .shell(&format!("echo '{EDIT}' >> {CONFIGURATION}"))?
        .ok()?;
    let before = super::main_pid(machine)?;
    machine
        .shell("cd /srv/shared && apt-get install --yes --reinstall ./rtswap_*.deb")?
        .ok()?;
    machine
        .run(&["grep", "--quiet", EDIT, CONFIGURATION])?
        .ok()?;
    ensure!(
        super::is_another(machine, before)?,
        "the old daemon runs on"
    );
    status(machine)?;
    Ok(())
}

fn remove(machine: &Machine) -> Result<()> {
    machine
        .run(&["apt-get", "remove", "--yes", "rtswap", "rtswap-simgpu"])?
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

/// What is not the packages': the machine's own names, the user's simulated GPU, the installer's and systemd's logs.
const FOREIGN: [&str; 3] = ["/srv/shared", "/dev/shm", "/var/log"];

fn purge(machine: &Machine) -> Result<()> {
    // As an administrator and a crashed daemon would have left them.
    machine
        .shell("mkdir -p /etc/rtswap/tasks.d /var/lib/rtswap; touch /etc/rtswap/tasks.d/a.toml /var/lib/rtswap/b")?
        .ok()?;
    machine
        .run(&["apt-get", "purge", "--yes", "rtswap", "rtswap-simgpu"])?
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
    let dpkg = machine.run(&["dpkg-query", "-W", "rtswap*"])?;
    ensure!(dpkg.code != Some(0), "dpkg knows {}", dpkg.stdout);
    Ok(())
}
