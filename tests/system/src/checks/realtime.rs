//! Who may promise a deadline: polkit says.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::USER;
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check("realtime is AccessDenied to an ordinary user", denied);
    report.check("rtswapctl says so with exit code 4", exit_code);
    report.check("a rule of polkit grants it", granted);
}

const CLIENT: [&str; 4] = [
    "python3",
    "/srv/shared/register.py",
    "detector",
    "--realtime",
];

fn denied(machine: &Machine) -> Result<()> {
    let done = machine.run_as(USER, &CLIENT)?;
    ensure!(
        done.stderr
            .starts_with("org.freedesktop.DBus.Error.AccessDenied: "),
        "{done:?}"
    );
    Ok(())
}

fn exit_code(machine: &Machine) -> Result<()> {
    let declared = [
        "--period",
        "2s",
        "--wcet",
        "10ms",
        "--footprint",
        "8MiB",
        "--swappable",
        "4MiB",
    ];
    let done = machine.run_as(
        USER,
        &[&["rtswapctl", "run"], &declared[..], &["--", "true"]].concat(),
    )?;
    ensure!(done.code == Some(4), "{done:?}");
    Ok(())
}

fn granted(machine: &Machine) -> Result<()> {
    machine
        .shell(
            "cat > /etc/polkit-1/rules.d/50-rtswap-test.rules <<'RULE'
polkit.addRule(function(action, subject) {
    if (action.id == 'org.rtswap.register-realtime' && subject.user == 'tester') return polkit.Result.YES;
});
RULE",
        )?
        .ok()?;
    let granted = machine.wait("granted", Duration::from_secs(10), |machine| {
        let said = machine.run_as(USER, &CLIENT)?.ok()?;
        Ok(said.ends_with(" detector\n"))
    });
    machine
        .run(&["rm", "/etc/polkit-1/rules.d/50-rtswap-test.rules"])?
        .ok()?;
    granted
}
