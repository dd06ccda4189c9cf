//! Where everything runs: the GPU, the folders, and commands with their environment.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use simgpu_core::config::{Config, GpuConfig};
use tempfile::TempDir;

use crate::cli::{GpuKind, Options};
use crate::tasks::{GpuModel, TASKS};

const SIMULATED: &str = include_str!("../demo.toml");
const GIB: f64 = 1_073_741_824.0;
const MIB: u64 = 1 << 20;

/// The folders and the GPU of one run. All of it is gone when this is dropped.
pub(crate) struct Bench {
    folder: TempDir,
    bin_dir: PathBuf,
    /// The simulated driver's folder and configuration; none on a real GPU.
    simulated: Option<(PathBuf, GpuConfig)>,
}

/// What `dnn --info` tells of a GPU.
#[derive(Deserialize)]
pub(crate) struct GpuInfo {
    /// `GPU-…`.
    pub uuid: String,
    /// Its product name.
    pub name: String,
    /// All of its memory.
    pub memory_bytes: u64,
}

#[derive(Deserialize)]
struct Info {
    gpus: Vec<GpuInfo>,
}

impl Bench {
    /// Makes the folders.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        // Device memory is a file there: in memory, where there is such a folder.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            env::temp_dir()
        };
        let folder = tempfile::Builder::new()
            .prefix("rtswap-demo-")
            .tempdir_in(place)?;
        let bin_dir = fs::canonicalize(&options.bin_dir)
            .with_context(|| format!("--bin-dir {}", options.bin_dir.display()))?;
        let simulated = match options.gpu {
            GpuKind::Simulated => {
                fs::write(folder.path().join("simgpu.toml"), SIMULATED)?;
                let mut gpus = Config::parse("demo.toml", SIMULATED, &[])?.gpus;
                Some((bin_dir.join("simgpu"), gpus.remove(0)))
            }
            GpuKind::Real => None,
        };
        Ok(Self {
            folder,
            bin_dir,
            simulated,
        })
    }

    /// A path in the run's own folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A built program or library.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Where the simulated machine of a phase lives; none on a real GPU.
    pub(crate) fn machine_dir(&self, phase: &str) -> Option<PathBuf> {
        self.simulated
            .as_ref()
            .map(|_| self.path(&format!("gpu-{phase}")))
    }

    /// The rate of the slower and the faster direction of the link, GiB/s; none where not modelled.
    pub(crate) fn link_gib_per_s(&self) -> Option<(f64, f64)> {
        let (_, gpu) = self.simulated.as_ref()?;
        Some((gpu.d2h_gib_per_s, gpu.h2d_gib_per_s))
    }

    /// `dnn`, on the GPU of `phase`.
    pub(crate) fn dnn(&self, phase: &str) -> Result<Command> {
        self.command("dnn", phase)
    }

    /// A program that sees the GPU of `phase` and nothing of rtswap but the runtime folder.
    pub(crate) fn command(&self, program: &str, phase: &str) -> Result<Command> {
        let mut command = Command::new(self.binary(program));
        let ours = |name: &str| {
            ["SIMGPU_", "RTSWAP_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in env::vars_os() {
            if name == "LD_PRELOAD" || name.to_str().is_some_and(ours) {
                command.env_remove(name);
            }
        }
        command.env("RTSWAP_RUNTIME_DIR", self.path("run"));
        if let (Some((driver, _)), Some(machine)) = (&self.simulated, self.machine_dir(phase)) {
            fs::create_dir_all(&machine)?;
            let mut path = OsString::from(driver);
            if let Some(present) = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
                path.push(":");
                path.push(present);
            }
            command
                .env("LD_LIBRARY_PATH", path)
                .env("SIMGPU_DIR", machine)
                .env("SIMGPU_CONFIG", self.path("simgpu.toml"));
        }
        Ok(command)
    }

    /// GPU 0, as a CUDA program sees it.
    pub(crate) fn gpu_info(&self, phase: &str) -> Result<GpuInfo> {
        let mut command = self.dnn(phase)?;
        let output = command.arg("--info").output().context("cannot start dnn")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "dnn --info: {}", said.trim());
        let mut info: Info = serde_json::from_slice(&output.stdout).context("dnn --info")?;
        ensure!(
            !info.gpus.is_empty(),
            "there is no GPU on this machine; leave out --gpu real"
        );
        Ok(info.gpus.swap_remove(0))
    }

    /// What the plan counts with: the simulated GPU's own model, or assumptions about a real one.
    /// Contexts of `best_effort` programs stay on it beside the tasks.
    pub(crate) fn model(&self, info: &GpuInfo, best_effort: u32) -> GpuModel {
        let model = match &self.simulated {
            Some((_, gpu)) => GpuModel {
                memory: info.memory_bytes,
                chunk: 2 * MIB,
                context: gpu.context_bytes.0,
                // An agent charges a context a 64th of the memory. Where the others take all of it, the last chunk of a
                // task would find no room.
                reserve: u64::from(TASKS + best_effort)
                    * gpu.context_bytes.0.saturating_sub(info.memory_bytes / 64),
                // The contexts of two tasks that are loading.
                best_effort_reserve: 3 * MIB,
                swap_out_us_per_chunk: gpu.copy_us + gpu.unmap_us + gpu.release_us,
                swap_in_us_per_chunk: gpu.copy_us + gpu.create_us + gpu.map_us + gpu.access_us,
                swap_out_bytes_per_s: gpu.d2h_gib_per_s * GIB,
                swap_in_bytes_per_s: gpu.h2d_gib_per_s * GIB,
                compute_bytes_per_s: gpu.compute_gib_per_s * GIB,
            },
            // PCIe 3.0 with the paper's costs: any GPU that rtswap is for is at least as fast.
            None => GpuModel {
                // The driver's own part, as the daemon leaves by default.
                memory: info.memory_bytes / 64 * 63,
                chunk: 64 * MIB,
                context: 1024 * MIB,
                // The daemon has it from NVML.
                reserve: 0,
                best_effort_reserve: 1024 * MIB,
                swap_out_us_per_chunk: 73.6,
                swap_in_us_per_chunk: 79.5,
                swap_out_bytes_per_s: 12.08 * GIB,
                swap_in_bytes_per_s: 11.18 * GIB,
                compute_bytes_per_s: 64.0 * GIB,
            },
        };
        GpuModel {
            best_effort_reserve: model.best_effort_reserve
                + u64::from(best_effort) * model.context.next_multiple_of(model.chunk),
            ..model
        }
    }
}

/// Refuses a simulated link that the host is too slow to stand behind: its own speed would then be in
/// the figures.
pub(crate) fn check_host(bench: &Bench) -> Result<()> {
    let Some((out, into)) = bench.link_gib_per_s() else {
        return Ok(());
    };
    let link = out.max(into);
    let mut host = 0.0_f64;
    // The best of several: what else runs makes one slower and none faster.
    for _ in 0..10 {
        let rate = simgpu_core::host_copy_bytes_per_s().context("measuring the host's memory")?;
        host = host.max(rate / GIB);
        if link <= host / 4.0 {
            return Ok(());
        }
    }
    bail!(
        "this host copies {host:.2} GiB/s now, and the simulated link of {link:.2} GiB/s may be at \
         most a quarter of that: run it on an idle or a faster machine"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_gpu_is_sound() {
        let config = Config::parse("demo.toml", SIMULATED, &[]).unwrap();
        assert_eq!(config.gpus.len(), 1);
        // A contexts fits one chunk of the plan, so that no memory is lost to rounding.
        assert_eq!(config.gpus[0].context_bytes.0, 2 * MIB);
    }
}
