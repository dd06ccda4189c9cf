//! How exposed the unit is.

use anyhow::{Context, Result, ensure};

use crate::machine::Machine;
use crate::report::Report;

/// At most this, of 10.
const MOST: f64 = 2.6;

pub(super) fn check(report: &mut Report<'_>) {
    if let Some(exposure) = report.check("systemd-analyze finds the unit little exposed", exposure)
    {
        println!("        exposure {exposure:.1}, at most {MOST:.1}");
    }
    report.check("systemd-analyze finds nothing wrong in the unit", verified);
    report.check("the system runs without a failed unit", sound);
}

/// Of the unit as packaged: the drop-in for the simulated GPU is taken away first.
fn exposure(machine: &Machine) -> Result<f64> {
    let bare = "rm /etc/systemd/system/rtswapd.service.d/simgpu.conf
        rmdir /etc/systemd/system/rtswapd.service.d
        systemctl daemon-reload; systemctl restart rtswapd";
    machine.shell(bare)?.ok()?;
    let said = machine
        .run(&[
            "systemd-analyze",
            "--no-pager",
            "security",
            "rtswapd.service",
        ])?
        .ok()?;
    let last = said.lines().last().unwrap_or_default();
    let (_, figure) = last.split_once(": ").with_context(|| last.to_owned())?;
    let figure: f64 = figure.split(' ').next().unwrap_or_default().parse()?;
    ensure!(figure <= MOST, "{said}");
    Ok(figure)
}

fn verified(machine: &Machine) -> Result<()> {
    let done = machine.run(&["systemd-analyze", "verify", "--man=no", "rtswapd.service"])?;
    ensure!(done.code == Some(0) && done.stderr.is_empty(), "{done:?}");
    Ok(())
}

fn sound(machine: &Machine) -> Result<()> {
    let failed = machine
        .run(&["systemctl", "--failed", "--no-legend", "--plain"])?
        .ok()?;
    ensure!(!failed.contains("rtswap"), "{failed}");
    Ok(())
}
