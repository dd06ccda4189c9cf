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
    report.check("a realtime program of that user runs", runs);
    report.check("without the rule it is denied again", |machine| {
        machine.run(&["rm", RULE])?.ok()?;
        machine.wait("denied", Duration::from_secs(10), |machine| {
            Ok(machine.run_as(USER, &CLIENT)?.code == Some(1))
        })
    });
}

const RULE: &str = "/etc/polkit-1/rules.d/50-rtswap-test.rules";

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
    let rule = format!(
        "cat > {RULE} <<'END'
polkit.addRule(function(action, subject) {{
    if (action.id == 'org.rtswap.register-realtime' && subject.user == '{USER}') return polkit.Result.YES;
}});
END"
    );
    machine.shell(&rule)?.ok()?;
    machine.wait("granted", Duration::from_secs(10), |machine| {
        let said = machine.run_as(USER, &CLIENT)?.ok()?;
        Ok(said.ends_with(" detector\n"))
    })
}

/// Whether its deadlines hold is for tests on a machine that does nothing else meanwhile.
fn runs(machine: &Machine) -> Result<()> {
    let run = ["rtswap-simgpu", "rtswapctl", "run", "--name", "detector"];
    let declared = [
        "--period",
        "500ms",
        "--wcet",
        "60ms",
        "--footprint",
        "96MiB",
        "--swappable",
        "80MiB",
        "--",
    ];
    let dnn = [
        "rtswap-dnn",
        "--memory",
        "64MiB",
        "--period",
        "500ms",
        "--jobs",
        "6",
        "--json",
    ];
    let report = machine
        .run_as(USER, &[&run[..], &declared, &dnn].concat())?
        .json()?;
    ensure!(
        report["jobs"] == 6 && report["checksum_errors"] == 0,
        "{report}"
    );
    Ok(())
}
