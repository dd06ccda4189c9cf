//! `rtswapctl doctor` finds what is wrong with a machine: each fault is planted in the system, found, and taken away.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::restarts::NO_LIMIT;
use super::{MANAGER, USER};
use crate::machine::{Done, Machine};
use crate::report::Report;

/// Where the system sees what is planted.
const SHARED: &str = "/srv/shared";
const AGENT: &str = "newer-agent.so";
const DRIVER: &str = "driver";

/// What is wrong, how it comes and goes, and how the doctor is called meanwhile.
struct Plant {
    what: &'static str,
    /// A shell's words, as root.
    damage: &'static str,
    restore: &'static str,
    /// What the ordinary user types in front of `rtswapctl doctor`.
    around: &'static [&'static str],
    check: &'static str,
    level: &'static str,
    /// Part of what is found.
    says: &'static str,
}

const SIMULATED: &[&str] = &["rtswap-simgpu"];

const PLANTS: [Plant; 11] = [
    Plant {
        what: "64 KiB of locked memory",
        damage: "",
        restore: "",
        around: &["prlimit", "--memlock=65536:65536", "rtswap-simgpu"],
        check: "memlock",
        level: "warning",
        says: "64 KiB",
    },
    Plant {
        what: "a missing agent",
        damage: "mv /usr/lib/x86_64-linux-gnu/librtswap_cuda.so /root/",
        restore: "mv /root/librtswap_cuda.so /usr/lib/x86_64-linux-gnu/",
        around: SIMULATED,
        check: "agent",
        level: "fault",
        says: "there is no agent at /usr/lib/x86_64-linux-gnu/librtswap_cuda.so",
    },
    Plant {
        what: "an agent built for a newer glibc",
        damage: "mv /usr/lib/x86_64-linux-gnu/librtswap_cuda.so /root/
            cp /srv/shared/newer-agent.so /usr/lib/x86_64-linux-gnu/librtswap_cuda.so",
        restore: "mv /root/librtswap_cuda.so /usr/lib/x86_64-linux-gnu/",
        around: SIMULATED,
        check: "agent",
        level: "fault",
        says: "GLIBC_2.999",
    },
    Plant {
        what: "a kernel without BTF",
        damage: "mount -t tmpfs none /sys/kernel/btf",
        restore: "umount /sys/kernel/btf",
        around: SIMULATED,
        check: "btf",
        level: "warning",
        says: "there is no /sys/kernel/btf/vmlinux",
    },
    Plant {
        what: "no tracefs",
        damage: "umount /sys/kernel/tracing",
        restore: "mount -t tracefs none /sys/kernel/tracing",
        around: SIMULATED,
        check: "tracefs",
        level: "warning",
        says: "not mounted",
    },
    Plant {
        what: "no polkit",
        damage: "systemctl stop polkit
            mv /usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service /root/
            busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig",
        restore: "mv /root/org.freedesktop.PolicyKit1.service /usr/share/dbus-1/system-services/
            busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig",
        around: SIMULATED,
        check: "polkit",
        level: "warning",
        says: "not installed",
    },
    Plant {
        what: "no bus policy",
        damage: "mv /usr/share/dbus-1/system.d/org.rtswap.conf /root/
            busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig",
        restore: "mv /root/org.rtswap.conf /usr/share/dbus-1/system.d/
            busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig",
        around: SIMULATED,
        check: "bus-policy",
        level: "fault",
        says: "org.rtswap.conf",
    },
    Plant {
        what: "a full /run",
        damage: "used=$(df --output=used /run | tail -n 1)
            mount -o remount,size=$((used + 512))k /run
            head -c 1M /dev/zero > /run/full || :",
        restore: "rm /run/full; mount -o remount,size=50% /run",
        around: SIMULATED,
        check: "runtime-folder",
        level: "fault",
        says: "left: after a restart",
    },
    Plant {
        what: "a multi-process server",
        damage: "cp /usr/bin/sleep /root/nvidia-cuda-mps-server
            systemd-run --quiet --unit=mps --service-type=exec /root/nvidia-cuda-mps-server 1000",
        restore: "systemctl stop mps; rm /root/nvidia-cuda-mps-server",
        around: SIMULATED,
        check: "mps",
        level: "warning",
        says: "a multi-process server",
    },
    Plant {
        what: "a second daemon",
        damage: "systemd-run --quiet --unit=second --service-type=notify rtswapd --runtime-dir /run/second",
        restore: "systemctl stop second; rm -r /run/second",
        around: SIMULATED,
        check: "one-daemon",
        level: "fault",
        says: "2 rtswapd run",
    },
    // The kernel here has the memory controller elsewhere: the file is made where version 2 has it.
    Plant {
        what: "a cgroup's memory.max below what is swapped",
        damage: "mount -t tmpfs none /sys/fs/cgroup
            echo 1048576 > /sys/fs/cgroup/memory.max",
        restore: "umount /sys/fs/cgroup",
        around: SIMULATED,
        check: "cgroup-memory",
        level: "warning",
        says: "/sys/fs/cgroup/memory.max allows 1 MiB, less than the GPU's",
    },
];

/// Puts an agent of a newer system into the shared folder, and NVIDIA's driver library where `driver` has one.
pub(super) fn prepare(machine: &Machine, driver: &Path) -> Result<()> {
    let probes = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
    let shared = machine.shared();
    let compile = |arguments: &[&Path]| -> Result<()> {
        let done = Command::new("cc")
            .args(["-Wall", "-Werror", "-shared", "-fPIC", "-nostdlib"])
            .args(arguments)
            .status()
            .context("cc")?;
        ensure!(done.success(), "{arguments:?} does not compile");
        Ok(())
    };
    let newer = shared.join("newer").join("libc.so.6");
    fs::create_dir_all(newer.parent().expect("a folder"))?;
    let map = probes.join("newer.map");
    let map = format!("-Wl,-soname,libc.so.6,--version-script={}", map.display());
    let output = Path::new("-o");
    compile(&[&probes.join("newer.c"), map.as_ref(), output, &newer])?;
    compile(&[&probes.join("agent.c"), &newer, output, &shared.join(AGENT)])?;
    if let Some(library) = real_library(driver) {
        fs::create_dir_all(shared.join(DRIVER))?;
        fs::copy(library, shared.join(DRIVER).join("libcuda.so.1"))?;
    }
    Ok(())
}

/// The CUDA library of the latest of the drivers in a folder, as `cargo xtask driver` fetches them.
fn real_library(folder: &Path) -> Option<std::path::PathBuf> {
    let versions = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let libraries = versions.map(|version| version.path().join("libcuda.so.1"));
    libraries.filter(|library| library.is_file()).max()
}

pub(super) fn check(report: &mut Report<'_>) {
    let Some(sound) = report.check("the doctor finds no fault in a sound system", baseline) else {
        return;
    };
    report.check("without BTF the probes are on", probes_without_btf);
    for plant in &PLANTS {
        report.check(&format!("the doctor finds {}", plant.what), |machine| {
            find(machine, plant)
        });
    }
    report.check(
        "the doctor finds that a task declared more than a cgroup allows",
        declared,
    );
    report.check(
        "the doctor finds a driver that the kernel does not have",
        without_kernel,
    );
    report.check("all of it is gone afterwards", |machine| {
        machine
            .shell("rm -r /run/systemd/system/rtswapd.service.d; systemctl daemon-reload")?
            .ok()?;
        let now = levels(&diagnose(machine, SIMULATED)?)?;
        ensure!(now == sound, "{now:?} is not {sound:?}");
        Ok(())
    });
}

/// What the doctor says to the ordinary user, with the exit code by the worst.
fn diagnose(machine: &Machine, around: &[&str]) -> Result<Value> {
    let done = machine.run_as(USER, &[around, &["rtswapctl", "doctor", "--json"]].concat())?;
    judge(&done)
}

fn judge(done: &Done) -> Result<Value> {
    let code = done.code;
    let diagnosis: Value =
        serde_json::from_str(&done.stdout).with_context(|| format!("{done:?}"))?;
    let wanted = match diagnosis["level"].as_str() {
        Some("ok") => 0,
        Some("warning") => 6,
        _ => 1,
    };
    ensure!(code == Some(wanted), "exit code {code:?}: {diagnosis}");
    Ok(diagnosis)
}

fn findings(diagnosis: &Value) -> Result<&Vec<Value>> {
    diagnosis["findings"].as_array().context("no findings")
}

/// Each check with its level.
fn levels(diagnosis: &Value) -> Result<Vec<String>> {
    let each = findings(diagnosis)?.iter();
    Ok(each
        .map(|it| format!("{} {}", it["check"], it["level"]))
        .collect())
}

fn baseline(machine: &Machine) -> Result<Vec<String>> {
    let prepare = format!(
        "mkdir -p /run/systemd/system/rtswapd.service.d
        printf '[Unit]\\n{NO_LIMIT}\\n' > /run/systemd/system/rtswapd.service.d/limit.conf
        systemctl daemon-reload
        mount -t tracefs none /sys/kernel/tracing; systemctl restart rtswapd"
    );
    machine.shell(&prepare)?.ok()?;
    probes_are_on(machine)?;
    let diagnosis = diagnose(machine, SIMULATED)?;
    ensure!(diagnosis["level"] != "fault", "{diagnosis}");
    levels(&diagnosis)
}

/// They begin with the first look at the machine's processes.
fn probes_are_on(machine: &Machine) -> Result<()> {
    machine.wait("probes", Duration::from_secs(20), |machine| {
        Ok(super::status(machine)?["probes"]["state"] == "on")
    })
}

/// What the doctor says of them is true.
fn probes_without_btf(machine: &Machine) -> Result<()> {
    let hide = "mount -t tmpfs none /sys/kernel/btf; systemctl restart rtswapd";
    let hidden = machine.shell(hide).and_then(Done::ok);
    let probes = hidden.and_then(|_| probes_are_on(machine));
    let shown = machine.shell("umount /sys/kernel/btf; systemctl restart rtswapd");
    shown?.ok()?;
    probes?;
    probes_are_on(machine)
}

/// Plants it, has it found with what mends it, and takes it away.
fn find(machine: &Machine, plant: &Plant) -> Result<()> {
    let damaged = machine.shell(plant.damage).and_then(Done::ok);
    let diagnosis = damaged.and_then(|_| diagnose(machine, plant.around));
    let restored = machine.shell(plant.restore).and_then(Done::ok);
    expect(&diagnosis?, plant.check, plant.level, plant.says)?;
    restored.map(drop)
}

fn expect(diagnosis: &Value, check: &str, level: &str, says: &str) -> Result<()> {
    let mut found = findings(diagnosis)?.iter();
    let found = found.find(|it| it["check"] == check && it["level"] == level);
    let found = found.with_context(|| format!("no {level} of {check}: {diagnosis}"))?;
    let text = found["found"].as_str().unwrap_or_default();
    ensure!(text.contains(says), "{found}");
    ensure!(
        found["mend"].as_str().is_some_and(|mend| !mend.is_empty()),
        "{found}"
    );
    Ok(())
}

fn declared(machine: &Machine) -> Result<()> {
    let register = [
        &["busctl", "--json=short", "call"],
        &MANAGER[..],
        &[
            "Register",
            "sa{sv}",
            "large",
            "2",
            "footprint",
            "s",
            "64MiB",
            "swappable",
            "s",
            "64MiB",
        ],
    ]
    .concat();
    machine.run_as(USER, &register)?.ok()?;
    let plant = Plant {
        what: "",
        level: "fault",
        says: "the tasks here may swap 64 MiB more",
        ..PLANTS[PLANTS.len() - 1]
    };
    let found = find(machine, &plant);
    machine
        .run_as(USER, &["rtswapctl", "unregister", "large"])?
        .ok()?;
    found
}

/// With NVIDIA's own library, where it was fetched.
fn without_kernel(machine: &Machine) -> Result<()> {
    if !machine.shared().join(DRIVER).is_dir() {
        println!("SKIPPED NVIDIA's own library: `cargo xtask driver` fetches it");
        return Ok(());
    }
    if Path::new("/sys/module/nvidia").exists() {
        println!("SKIPPED NVIDIA's own library: the kernel here has the driver");
        return Ok(());
    }
    let path = format!("LD_LIBRARY_PATH={SHARED}/{DRIVER}");
    let diagnosis = diagnose(machine, &["env", &path])?;
    expect(
        &diagnosis,
        "driver",
        "fault",
        "the kernel's driver is not loaded",
    )
}
