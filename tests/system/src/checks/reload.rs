//! The configuration at run time, and the watchdog.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{is_another, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "a bad configuration is refused at reload, the old one stays",
        refused,
    );
    report.check("a good one is taken", taken);
    report.check(
        "the watchdog ends a daemon that hangs, and it comes back",
        watchdog,
    );
}

const SPOIL: &str = "cp /etc/rtswap/rtswapd.toml /root/rtswapd.toml
    printf '[daemon]\\nclaim_timout_s = 5\\n' >> /etc/rtswap/rtswapd.toml";
const RESTORE: &str = "mv /root/rtswapd.toml /etc/rtswap/rtswapd.toml";
const RELOAD: [&str; 6] = [
    "busctl",
    "call",
    "org.rtswap",
    "/org/rtswap",
    "org.rtswap.Manager1",
    "Reload",
];

fn refused(machine: &Machine) -> Result<()> {
    let before = main_pid(machine)?;
    machine.shell(SPOIL)?.ok()?;
    let called = machine.run(&RELOAD)?;
    machine.run(&["systemctl", "reload", "rtswapd"])?.ok()?;
    let logged = machine.wait("the log says where", Duration::from_secs(30), |machine| {
        let journal = machine
            .run(&["journalctl", "--no-pager", "-u", "rtswapd", "-n", "30"])?
            .ok()?;
        Ok(journal.contains("SIGHUP") && journal.contains("claim_timeout_s"))
    });
    machine.shell(RESTORE)?.ok()?;
    logged?;
    ensure!(called.code != Some(0), "Reload took it");
    ensure!(
        called.stderr.contains("rtswapd.toml") && called.stderr.contains("claim_timeout_s"),
        "{called:?}"
    );
    ensure!(main_pid(machine)? == before, "the daemon was restarted");
    status(machine)?;
    Ok(())
}

fn taken(machine: &Machine) -> Result<()> {
    machine.run(&RELOAD)?.ok()?;
    Ok(())
}

fn watchdog(machine: &Machine) -> Result<()> {
    let before = main_pid(machine)?;
    machine.run(&["kill", "-STOP", &before.to_string()])?.ok()?;
    // The unit's WatchdogSec and TimeoutAbortSec together, and some.
    machine.wait("another daemon", Duration::from_secs(30), |machine| {
        is_another(machine, before)
    })?;
    let journal = machine
        .run(&["journalctl", "--no-pager", "-u", "rtswapd", "-n", "30"])?
        .ok()?;
    ensure!(journal.contains("Watchdog timeout"), "{journal}");
    status(machine)?;
    Ok(())
}
