//! A systemd service with a program under rtswap, and a daemon that is restarted ten times.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::swapping::task;
use super::{USER, is_another, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "a service with Restart=always survives ten restarts of the daemon",
        survives,
    );
}

const TURNS: u64 = 10;

/// A removed package leaves no file with its name, and a test's is none of its files.
const UNIT: &str = "detector.service";

/// So many starts in so short a time are the test's doing.
pub(super) const NO_LIMIT: &str = "StartLimitIntervalSec=0";

fn survives(machine: &Machine) -> Result<()> {
    let unit = format!(
        "cat > /etc/systemd/system/{UNIT} <<'END'
[Unit]
{NO_LIMIT}
[Service]
User={USER}
Restart=always
RestartSec=100ms
ExecStart=/usr/bin/rtswap-simgpu /usr/bin/rtswapctl run --name detector -- /usr/bin/rtswap-dnn --memory 16MiB --period 50ms
END
mkdir -p /run/systemd/system/rtswapd.service.d
printf '[Unit]\\n{NO_LIMIT}\\n' > /run/systemd/system/rtswapd.service.d/limit.conf
systemctl daemon-reload
systemctl start {UNIT}"
    );
    machine.shell(&unit)?.ok()?;
    let mut last = runs(machine, 0)?;
    for turn in 0..TURNS {
        let daemon = main_pid(machine)?;
        // The program ends before its daemon, or beside it, as when a package of both is upgraded; or the daemon dies.
        let script = match turn % 3 {
            0 => format!("systemctl kill --signal=KILL {UNIT}; systemctl restart rtswapd"),
            1 => {
                format!("systemctl restart --no-block rtswapd; systemctl kill --signal=KILL {UNIT}")
            }
            _ => format!("systemctl kill --signal=KILL rtswapd {UNIT}"),
        };
        machine.shell(&script)?.ok()?;
        machine.wait("another daemon", Duration::from_secs(10), |machine| {
            is_another(machine, daemon)
        })?;
        last = runs(machine, last).with_context(|| format!("turn {turn}"))?;
    }
    let failed = machine.run(&["systemctl", "show", "--property=NRestarts", "--value", UNIT])?;
    let restarts: u64 = failed.ok()?.trim().parse()?;
    machine.run(&["systemctl", "stop", UNIT])?.ok()?;
    let clean = format!(
        "rm /etc/systemd/system/{UNIT} /run/systemd/system/rtswapd.service.d/limit.conf
rmdir /run/systemd/system/rtswapd.service.d
systemctl daemon-reload"
    );
    machine.shell(&clean)?.ok()?;
    ensure!(
        restarts == TURNS,
        "it was started again {restarts} times, not {TURNS}"
    );
    Ok(())
}

/// Waits until the service's program, another one than before, does jobs; its process.
fn runs(machine: &Machine, before: u64) -> Result<u64> {
    let mut now = 0;
    machine.wait(
        "the service does jobs",
        Duration::from_secs(10),
        |machine| {
            let status = status(machine)?;
            let Some(task) = task(&status, "detector") else {
                return Ok(false);
            };
            now = task["pid"].as_u64().unwrap_or_default();
            Ok(now != 0 && now != before && task["jobs"].as_u64() > Some(0))
        },
    )?;
    Ok(now)
}
