//! Where the attacks are made: a simulated machine, the daemon as its unit starts it, and the victims.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use rustix::process::{Resource, getrlimit};
use serde_json::Value;

use crate::attack::Setting;
use crate::judge::{self, Bounds};
use crate::unit;
use crate::victims::{Victims, installed};

/// Longer than a daemon needs to serve.
const BOUND: Duration = Duration::from_secs(15);

/// How often a stage is started where the daemon kills a victim that is late.
const STARTS: u32 = 5;

/// Between two starts: a host that is slow is slow for seconds.
const PAUSE: Duration = Duration::from_secs(4);

/// MiB of the GPU.
const MEMORY_MIB: u64 = 64;
/// The same where no file describes it, so that the victims fit: the costs of swapping on it are not known.
const UNDESCRIBED_MIB: u64 = 96;
/// GiB/s of its link.
const LINK: f64 = 2.0;
/// The limit of descriptors that an attack of two seconds can reach.
const FEW_DESCRIPTORS: u32 = 1_500;

/// The name of the library that attackers call a driver, in the machine's folder.
pub(crate) const FAKE_DRIVER: &str = "fake_driver.so";

/// A machine under attack.
pub(crate) struct Stage {
    /// Why it was made.
    pub setting: Setting,
    /// The simulated machine.
    pub machine: Machine,
    /// `rtswapd`, with the unit's capabilities.
    pub daemon: Program,
    /// Those who must not notice.
    pub victims: Victims,
    /// An ordinary user without an evil thought.
    pub bystander: u32,
    /// The daemon's memory and descriptors in the beginning.
    pub bounds: Bounds,
    /// Copies of the driver that were probed in the beginning.
    pub libraries: Option<u64>,
}

impl Stage {
    /// Makes a machine, starts the daemon and the victims; anew where a slow host made a victim late at its start.
    pub(crate) fn start(setting: Setting, bystander: u32) -> Result<Self> {
        for start in 1..STARTS {
            match Self::start_once(setting, bystander) {
                Err(error) if judge::was_any_late(&format!("{error:#}")) => {
                    eprintln!("UNJUDGED: start {start} of {STARTS} of a stage: {error:#}");
                    thread::sleep(PAUSE);
                }
                started => return started,
            }
        }
        Self::start_once(setting, bystander)
    }

    fn start_once(setting: Setting, bystander: u32) -> Result<Self> {
        let machine = Machine::new(MachineOptions {
            memory_mib: match setting {
                Setting::WithoutNvml => UNDESCRIBED_MIB,
                Setting::Whole | Setting::FewDescriptors => MEMORY_MIB,
            },
            link_gib_per_s: LINK,
            probes: true,
            ..MachineOptions::default()
        })?;
        let uuids = machine.uuids()?;
        fs::write(machine.path("rtswapd.toml"), settings(setting, &uuids))?;
        open_to_all(&machine, setting)?;
        give(&machine.simgpu_dir(), bystander)?;
        let mut daemon = Program::start(command(&machine, setting))?;
        wait_until("the daemon serves", BOUND, || {
            !daemon.is_running() || machine.status().is_ok()
        })
        .with_context(|| daemon.stderr())?;
        ensure!(daemon.is_running(), "rtswapd ended: {}", daemon.stderr());
        let probes = machine.probes_state(BOUND)?;
        if probes != "on" {
            eprintln!("SKIPPED what the probes count: {probes}");
        }
        let victims = Victims::start(&machine, bystander).with_context(|| daemon.stderr())?;
        // What every user can find out: the driver tells the one, /proc the other.
        let uuid = u128::from_be_bytes(machine.wire_uuid()?);
        fs::write(machine.path("uuid"), format!("{uuid:032x}"))?;
        let pids = victims.pids().map(|pid| pid.to_string());
        fs::write(machine.path("pids"), pids.join(" "))?;
        fake_driver(&machine)?;
        let libraries = machine.status()?["probes"]["libraries"].as_u64();
        let bounds = Bounds::of(daemon.pid()).context("the daemon's memory")?;
        Ok(Self {
            setting,
            machine,
            daemon,
            victims,
            bystander,
            bounds,
            libraries,
        })
    }

    /// `status` as root sees it.
    pub(crate) fn status(&self) -> Result<Value> {
        self.machine.status()
    }
}

/// The daemon, in namespaces of its own, with the capabilities and limits of its unit.
fn command(machine: &Machine, setting: Setting) -> Command {
    let limit = match setting {
        Setting::FewDescriptors => FEW_DESCRIPTORS,
        Setting::Whole | Setting::WithoutNvml => unit::descriptors(),
    };
    // A container may have less, and nobody there may have more.
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let limit = u64::from(limit).min(most);
    let mut command = machine.command("unshare");
    command.args(["--mount", "--net", "--", "prlimit"]);
    command.args([
        format!("--nofile={limit}:{limit}").as_str(),
        "--",
        "setpriv",
    ]);
    command.args([
        "--bounding-set",
        &unit::bounding_set(),
        "--inh-caps",
        "-all",
    ]);
    command.args(["--no-new-privs", "--"]);
    command.arg(machine.binary("rtswapd"));
    command.arg("--config").arg(machine.path("rtswapd.toml"));
    command
}

/// The configuration. Registrations that nobody claims end soon, so that one attack's do not stay for the next.
fn settings(setting: Setting, uuids: &[String]) -> String {
    let mut toml =
        "version = 1\n[scheduler]\nundrainable = \"kill\"\nkill_ms = 15\n[daemon]\nclaim_timeout_s = 1\n"
            .to_owned();
    if setting != Setting::WithoutNvml {
        // The margin of 1.3 is what a calibration would add for the host's own time.
        let speed = LINK / 1.3;
        for uuid in uuids {
            let cost = format!("base_us = 500.0\nper_chunk_us = 500.0\ngib_per_s = {speed:?}\n");
            write!(
                toml,
                "[[gpu]]\nuuid = \"{uuid}\"\nmemory = \"{MEMORY_MIB}MiB\"\nreserve = \"8MiB\"\n\
                 best_effort_reserve = \"10MiB\"\nchunk = \"2MiB\"\n\
                 [gpu.swap_cost.out]\n{cost}[gpu.swap_cost.in]\n{cost}"
            )
            .expect("writing to a string does not fail");
        }
    }
    toml
}

/// Lets every user reach the sockets, the programs and the driver.
fn open_to_all(machine: &Machine, setting: Setting) -> Result<()> {
    let bin = machine.path("bin");
    fs::create_dir(&bin)?;
    for name in ["rtswapctl", "dnn", "librtswap_cuda.so"] {
        let to = installed(machine, name);
        fs::copy(machine.binary(name), &to).with_context(|| to.display().to_string())?;
    }
    let nvml = machine.driver_dir().join("libnvidia-ml.so.1");
    fs::remove_file(&nvml)?;
    if setting == Setting::WithoutNvml {
        // Nothing that can be loaded, and in front of what this machine may have of its own.
        fs::write(&nvml, "")?;
    } else {
        fs::copy(machine.binary("libsimgpu_nvml.so"), &nvml)?;
    }
    for folder in [
        &machine.path(""),
        &bin,
        &machine.runtime_dir(),
        &machine.driver_dir(),
    ] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(
        machine.path("simgpu.toml"),
        fs::Permissions::from_mode(0o644),
    )?;
    Ok(())
}

/// Compiles the library that attackers call a driver.
fn fake_driver(machine: &Machine) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/fake_driver.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(&compiler);
    command.args([
        "-O1",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-o",
    ]);
    command.arg(machine.path(FAKE_DRIVER)).arg(source);
    let output = command
        .output()
        .with_context(|| format!("cannot run the C compiler {compiler}"))?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Makes a folder and what lies in it another user's.
fn give(folder: &Path, user: u32) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        chown(entry?.path(), Some(user), Some(user))?;
    }
    chown(folder, Some(user), Some(user))?;
    Ok(())
}
