//! Clients that others would write: in Python with dbus-python, in C with sd-bus.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::USER;
use crate::machine::Machine;
use crate::report::Report;

/// Where the system sees them.
const PYTHON: &str = "/srv/shared/register.py";
const C: &str = "/srv/shared/register";

/// Compiles what is to be compiled, against the system's own library.
pub(super) fn prepare(machine: &Machine, root: &Path) -> Result<()> {
    let probes = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
    let shared = machine.shared();
    fs::copy(probes.join("register.py"), shared.join("register.py"))?;
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(shared.join("register"))
        .arg(probes.join("register.c"))
        .arg("-idirafter")
        .arg(root.join("usr/include"))
        .arg(root.join("usr/lib/x86_64-linux-gnu/libsystemd.so.0"))
        // That library's own needs are met in the system, not here.
        .arg("-Wl,--allow-shlib-undefined")
        .status()
        .context("cc")?;
    ensure!(compiled.success(), "register.c does not compile");
    Ok(())
}

pub(super) fn check(report: &mut Report<'_>) {
    report.check("a client in Python registers", |machine| {
        registers(machine, &["python3", PYTHON, "from-python"])
    });
    report.check("a client in C registers", |machine| {
        registers(machine, &[C, "from-c"])
    });
    report.check("a lease ends with its holder", lease);
}

/// A client that registers the task of its last argument and prints its path and its name as the daemon tells it.
fn registers(machine: &Machine, client: &[&str]) -> Result<()> {
    let said = machine.run_as(USER, client)?.ok()?;
    let name = client.last().expect("its argument");
    ensure!(
        said.starts_with("/org/rtswap/task/") && said.ends_with(&format!(" {name}\n")),
        "{said:?}"
    );
    Ok(())
}

fn lease(machine: &Machine) -> Result<()> {
    let said = machine
        .run_as(USER, &["python3", PYTHON, "leased", "--lease"])?
        .ok()?;
    ensure!(said.contains("while held: yes\n"), "{said}");
    ensure!(said.ends_with("afterwards: no\n"), "{said}");
    Ok(())
}
