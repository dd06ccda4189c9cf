//! apt installs the packages by name; the unit runs; the simulated GPU is seen.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{PACKAGES, USER, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check("apt installs the packages by name", apt);
    report.check(
        "the unit is active, enabled and has told that it is ready",
        unit,
    );
    report.check("rtswapctl status answers an ordinary user", answers);
    report.check("files are where users look for them", files);
    report.check("no program finds the simulated driver by itself", hidden);
    report.check("NVML tells the daemon of the GPU", nvml);
    report.check("the example configuration describes it", described);
}

fn apt(machine: &Machine) -> Result<()> {
    let install = [&["apt-get", "install", "--yes"], &PACKAGES[..]].concat();
    let said = machine.run(&install)?.ok()?;
    ensure!(!said.contains("WARNING"), "{said}");
    let query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}"];
    let status = machine.run(&[&query, &PACKAGES[..]].concat())?.ok()?;
    ensure!(
        status == "ii ".repeat(PACKAGES.len()),
        "dpkg says {status:?}"
    );
    Ok(())
}

fn unit(machine: &Machine) -> Result<()> {
    machine.run(&["systemctl", "is-active", "rtswapd"])?.ok()?;
    machine.run(&["systemctl", "is-enabled", "rtswapd"])?.ok()?;
    let kind = machine
        .run(&["systemctl", "show", "--property=Type,NRestarts", "rtswapd"])?
        .ok()?;
    ensure!(
        kind.contains("Type=notify") && kind.contains("NRestarts=0"),
        "{kind}"
    );
    Ok(())
}

fn answers(machine: &Machine) -> Result<()> {
    let status = status(machine)?;
    ensure!(status["version"] == 1, "{status}");
    let tasks = status["tasks"].as_array().map(Vec::len);
    ensure!(tasks == Some(0), "tasks from nowhere: {status}");
    Ok(())
}

fn files(machine: &Machine) -> Result<()> {
    for file in [
        "/usr/lib/x86_64-linux-gnu/librtswap_cuda.so",
        "/usr/include/rtswap.h",
        "/usr/share/pkgconfig/rtswap.pc",
        "/etc/rtswap/rtswapd.toml",
        "/etc/rtswap/policy.toml",
        "/usr/share/man/man8/rtswapd.8.gz",
        "/usr/share/man/man5/rtswapd.toml.5.gz",
        "/usr/share/man/man1/rtswapctl-run.1.gz",
        "/usr/share/man/man1/rtswap-simgpu.1.gz",
        "/usr/share/bash-completion/completions/rtswapctl",
        "/usr/share/dbus-1/interfaces/org.rtswap.Manager1.xml",
        "/usr/share/polkit-1/actions/org.rtswap.policy",
    ] {
        machine.run(&["test", "-s", file])?.ok()?;
    }
    Ok(())
}

fn hidden(machine: &Machine) -> Result<()> {
    let cache = machine.run(&["ldconfig", "--print-cache"])?.ok()?;
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        ensure!(!cache.contains(name), "the loader finds {name}: {cache}");
    }
    let bare = machine.run_as(USER, &["rtswap-dnn", "--info"])?;
    ensure!(
        bare.code != Some(0),
        "a GPU without a driver: {}",
        bare.stdout
    );
    Ok(())
}

/// The example of the package, as its comment says.
fn nvml(machine: &Machine) -> Result<()> {
    machine
        .run_as(USER, &["rtswap-simgpu", "rtswap-dnn", "--info"])?
        .ok()?;
    let before = main_pid(machine)?;
    machine
        .shell(
            "mkdir /etc/systemd/system/rtswapd.service.d
             sed \"s/simgpu-1000/simgpu-$(id -u tester)/\" \
                 /usr/share/doc/rtswap-simgpu/examples/rtswapd-simgpu.conf \
                 > /etc/systemd/system/rtswapd.service.d/simgpu.conf
             systemctl daemon-reload; systemctl restart rtswapd",
        )?
        .ok()?;
    ensure!(main_pid(machine)? != before, "it was not restarted");
    machine.wait("a GPU", Duration::from_secs(30), |machine| {
        let status = status(machine)?;
        let capacity = status["gpus"][0]["capacity_bytes"].as_u64().unwrap_or(0);
        ensure!((600 << 20..=768 << 20).contains(&capacity), "{status}");
        Ok(true)
    })
}

fn described(machine: &Machine) -> Result<()> {
    let info = machine
        .run_as(USER, &["rtswap-simgpu", "rtswap-dnn", "--info"])?
        .json()?;
    let examples = "/usr/share/doc/rtswap-simgpu/examples";
    let copy = format!("cp {examples}/rtswapd.toml /etc/rtswap/ && systemctl restart rtswapd");
    machine.shell(&copy)?.ok()?;
    let gpu = &status(machine)?["gpus"][0];
    ensure!(
        gpu["uuid"] == info["gpus"][0]["uuid"],
        "{gpu} is not {info}"
    );
    ensure!(gpu["chunk_bytes"] == 16 << 20, "{gpu}");
    Ok(())
}
