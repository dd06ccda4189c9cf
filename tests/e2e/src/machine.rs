//! A simulated machine for one test: a folder for the GPUs, one for the daemon, and the binaries.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::program::{Program, wait_until};
use crate::tracefs::tracefs;

/// How the simulated GPUs of a test are made.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// How many.
    pub gpus: u32,
    /// MiB of each.
    pub memory_mib: u64,
    /// Link speed both ways, in GiB/s.
    pub link_gib_per_s: f64,
    /// Link speed to the GPU where it is another, in GiB/s.
    pub h2d_gib_per_s: Option<f64>,
    /// Rate at which kernels touch memory, in GiB/s.
    pub compute_gib_per_s: f64,
    /// Chunk size in MiB.
    pub chunk_mib: u64,
    /// Further lines for the simulated GPUs' configuration.
    pub simgpu_toml: String,
    /// Further lines for the daemon's configuration, before its GPUs.
    pub daemon_toml: String,
    /// Bytes of each that no program is told it may have, where the daemon's configuration says so.
    pub newcomers_reserve: Option<u64>,
    /// Whether the daemon's configuration describes the GPUs.
    pub described: bool,
    /// Whether the daemon puts eBPF probes on the driver. It then has a driver library of its own: the
    /// probes of one test would see the programs of all others that map the same file.
    pub probes: bool,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            gpus: 1,
            memory_mib: 64,
            link_gib_per_s: 1.0,
            h2d_gib_per_s: None,
            compute_gib_per_s: 16.0,
            chunk_mib: 2,
            simgpu_toml: String::new(),
            daemon_toml: String::new(),
            newcomers_reserve: None,
            described: true,
            probes: false,
        }
    }
}

/// A machine with simulated GPUs and a place for one daemon.
pub struct Machine {
    folder: TempDir,
    options: MachineOptions,
    binaries: PathBuf,
}

/// A running `rtswapd`.
pub type Daemon = Program;

impl Machine {
    /// Makes one; nothing runs on it yet.
    pub fn new(options: MachineOptions) -> Result<Self> {
        let binaries = binaries()?;
        let folder = tempfile::Builder::new().prefix("rtswap-e2e-").tempdir()?;
        let machine = Self {
            folder,
            options,
            binaries,
        };
        fs::create_dir(machine.simgpu_dir())?;
        fs::create_dir(machine.runtime_dir())?;
        fs::create_dir(machine.driver_dir())?;
        for (name, library) in [
            ("libcuda.so.1", "libsimgpu_cuda.so"),
            ("libcuda.so", "libsimgpu_cuda.so"),
            ("libnvidia-ml.so.1", "libsimgpu_nvml.so"),
        ] {
            let library = machine.binaries.join(library);
            let path = machine.driver_dir().join(name);
            match name {
                "libcuda.so.1" if machine.options.probes => drop(fs::copy(&library, path)?),
                "libcuda.so" => std::os::unix::fs::symlink("libcuda.so.1", path)?,
                _ => std::os::unix::fs::symlink(&library, path)?,
            }
        }
        fs::write(machine.path("simgpu.toml"), machine.simgpu_toml())?;
        if machine.options.probes {
            // Where it is not to be had, the daemon says so.
            let _ = tracefs();
        }
        Ok(machine)
    }

    /// A path in the machine's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the simulated GPUs live.
    pub fn simgpu_dir(&self) -> PathBuf {
        self.path("simgpu")
    }

    /// Where the daemon's sockets are.
    pub fn runtime_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Where `libcuda.so.1` and `libnvidia-ml.so.1` are.
    pub fn driver_dir(&self) -> PathBuf {
        self.path("driver")
    }

    /// A program of this build by name.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// The bytes of one GPU.
    pub fn memory_bytes(&self) -> u64 {
        self.options.memory_mib << 20
    }

    /// A command on this machine, without rtswap.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("LD_LIBRARY_PATH", self.driver_dir())
            .env("SIMGPU_DIR", self.simgpu_dir())
            .env("SIMGPU_CONFIG", self.path("simgpu.toml"))
            .env("RTSWAP_RUNTIME_DIR", self.runtime_dir())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("LD_PRELOAD")
            .env_remove("RTSWAP_TASK");
        command
    }

    /// A command under the agent, without a registration: best-effort.
    pub fn preloaded(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.command(program);
        command.env("LD_PRELOAD", self.binary("librtswap_cuda.so"));
        command
    }

    /// `rtswapctl run OPTIONS -- PROGRAM`, to which the program's arguments are still to be added.
    pub fn run(&self, options: &[&str], program: impl AsRef<Path>) -> Command {
        let mut command = self.command(self.binary("rtswapctl"));
        command
            .arg("run")
            .args(options)
            .arg("--")
            .arg(program.as_ref());
        command
    }

    /// `dnn` with a machine-readable end.
    pub fn dnn(&self) -> PathBuf {
        self.binary("dnn")
    }

    /// Starts the daemon and waits until it serves.
    pub fn daemon(&self) -> Result<Daemon> {
        self.daemon_with_drivers(&self.driver_dir())
    }

    /// As [`Self::daemon`], with a daemon that finds the driver's libraries in a folder of its own.
    pub fn daemon_with_drivers(&self, drivers: &Path) -> Result<Daemon> {
        fs::write(self.path("rtswapd.toml"), self.daemon_toml()?)?;
        let mut command = self.command(self.binary("rtswapd"));
        command.env("LD_LIBRARY_PATH", drivers);
        command
            .arg("--config")
            .arg(self.path("rtswapd.toml"))
            .env("RTSWAP_LOG", "debug");
        let is_on_bus = self.path("bus").exists();
        if is_on_bus {
            command.arg("--bus").arg(self.bus_address());
        }
        let mut daemon = Program::start(command)?;
        let bound = Duration::from_secs(10);
        let served = wait_until("the daemon serves", bound, || {
            !daemon.is_running() || self.status().is_ok()
        });
        served.and_then(|()| {
            ensure!(daemon.is_running(), "rtswapd ended: {}", daemon.stderr());
            Ok(())
        })?;
        if is_on_bus {
            wait_until("the daemon has its name", bound, || {
                daemon.stderr().contains(" as org.rtswap")
            })?;
        }
        Ok(daemon)
    }

    /// What the daemon says of its probes, once they are on or cannot be.
    pub fn probes_state(&self, bound: Duration) -> Result<String> {
        let mut state = String::new();
        wait_until("the probes begin", bound, || {
            let status = self.status().unwrap_or_default();
            let said = status["probes"]["state"].as_str();
            said.unwrap_or("off").clone_into(&mut state);
            state != "off"
        })?;
        Ok(state)
    }

    /// `rtswapctl status --json`.
    pub fn status(&self) -> Result<serde_json::Value> {
        self.rtswapctl(&["status", "--json"])
    }

    /// A short `rtswapctl` call whose answer is JSON.
    pub fn rtswapctl(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        let mut command = self.command(self.binary("rtswapctl"));
        command.args(arguments);
        Program::start(command)?
            .finish(Duration::from_secs(10))?
            .json()
    }

    /// The task of that name in `status`, if there is one.
    pub fn task(&self, name: &str) -> Result<Option<serde_json::Value>> {
        let status = self.status()?;
        let tasks = status["tasks"].as_array().context("status has no tasks")?;
        Ok(tasks.iter().find(|task| task["name"] == name).cloned())
    }

    fn simgpu_toml(&self) -> String {
        let MachineOptions {
            gpus,
            memory_mib,
            link_gib_per_s,
            h2d_gib_per_s,
            compute_gib_per_s,
            simgpu_toml,
            ..
        } = &self.options;
        let h2d_gib_per_s = h2d_gib_per_s.unwrap_or(*link_gib_per_s);
        format!(
            "version = 1\ngpus = {gpus}\nmemory = \"{memory_mib}MiB\"\nd2h_gib_per_s = {link_gib_per_s:?}\n\
             h2d_gib_per_s = {h2d_gib_per_s:?}\ncompute_gib_per_s = {compute_gib_per_s:?}\ncontext_bytes = \"2MiB\"\n{simgpu_toml}\n"
        )
    }

    fn daemon_toml(&self) -> Result<String> {
        let probes = format!("[daemon]\nprobes = {}\n", self.options.probes);
        let further = match self.options.daemon_toml.strip_prefix("[daemon]\n") {
            Some(rest) => probes + rest,
            None => probes + &self.options.daemon_toml,
        };
        let mut toml = format!("version = 1\n{further}\n");
        // The simulated machine is made here if nothing made it yet: NVML shows it from then on.
        let uuids = self.uuids()?;
        if !self.options.described {
            return Ok(toml);
        }
        for uuid in uuids {
            let MachineOptions {
                memory_mib,
                chunk_mib,
                link_gib_per_s,
                newcomers_reserve,
                ..
            } = &self.options;
            let newcomers = newcomers_reserve
                .map(|bytes| format!("newcomers_reserve = {bytes}\n"))
                .unwrap_or_default();
            // The margin of 1.3 is what a calibration would add for the host's own time.
            let speed = link_gib_per_s / 1.3;
            write!(
                toml,
                "[[gpu]]\nuuid = \"{uuid}\"\nmemory = \"{memory_mib}MiB\"\nreserve = \"8MiB\"\nchunk = \"{chunk_mib}MiB\"\n\
                 {newcomers}\
                 [gpu.swap_cost.out]\nbase_us = 500.0\nper_chunk_us = 500.0\ngib_per_s = {speed:?}\n\
                 [gpu.swap_cost.in]\nbase_us = 500.0\nper_chunk_us = 500.0\ngib_per_s = {speed:?}\n"
            )?;
        }
        Ok(toml)
    }

    /// The GPUs' UUIDs, as a CUDA program sees them.
    pub fn uuids(&self) -> Result<Vec<String>> {
        let mut command = self.command(self.dnn());
        command.arg("--info");
        let info = Program::start(command)?
            .finish(Duration::from_secs(20))?
            .json()
            .context("dnn --info")?;
        let gpus = info["gpus"]
            .as_array()
            .context("dnn --info lists no gpus")?;
        gpus.iter()
            .map(|gpu| {
                Ok(gpu["uuid"]
                    .as_str()
                    .context("a gpu without a uuid")?
                    .to_owned())
            })
            .collect()
    }

    /// The GPUs' UUIDs, as the wire has them.
    pub fn wire_uuids(&self) -> Result<Vec<[u8; 16]>> {
        let uuids = self.uuids()?;
        let number = |text: &String| {
            let digits = text
                .trim_start_matches(char::is_alphabetic)
                .replace('-', "");
            Ok(u128::from_str_radix(&digits, 16)?.to_be_bytes())
        };
        uuids.iter().map(number).collect()
    }

    /// The UUID of GPU 0, as the wire has it.
    pub fn wire_uuid(&self) -> Result<[u8; 16]> {
        let uuids = self.wire_uuids()?;
        uuids.first().copied().context("the machine has no GPU")
    }
}

/// The folder with this build's programs and libraries: where the caller's own binary was built, a
/// test's one level deeper.
fn binaries() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    // A test is in target/*/deps, a program in target/*.
    let folder = test
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps"))
        .context("the binary has no folder")?;
    for name in [
        "rtswapd",
        "rtswapctl",
        "dnn",
        "librtswap_cuda.so",
        "libsimgpu_cuda.so",
        "libsimgpu_nvml.so",
    ] {
        ensure!(
            folder.join(name).exists(),
            "{} is missing: run `cargo build --workspace` first, or the tests by `cargo xtask test`",
            folder.join(name).display()
        );
    }
    Ok(folder.to_path_buf())
}
