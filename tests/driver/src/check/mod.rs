//! The checks: each makes rows of the report.

mod agent;
mod codes;
mod daemon;
mod lookups;
mod names;
mod nvml;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::Result;
use rtswap_e2e::{Machine, MachineOptions};

use crate::library::{CUDA, Library, NVML, newest_of_each_branch};
use crate::probe::Probe;
use crate::report::Row;

/// What there is to compare.
pub struct Bench {
    /// Real drivers, oldest branch first.
    pub drivers: Vec<Library>,
    /// Real NVML libraries, likewise.
    pub nvmls: Vec<Library>,
    /// The simulated driver.
    pub simulated: Library,
    /// The simulated NVML.
    pub simulated_nvml: Library,
    machine: Machine,
    binaries: PathBuf,
}

impl Bench {
    /// The real libraries in `folder`, and the simulated ones and the agent of this build.
    pub fn new(folder: &Path) -> Result<Self> {
        let machine = Machine::new(MachineOptions::default())?;
        let simulated = machine.driver_dir().join(CUDA.file);
        let simulated_nvml = machine.driver_dir().join(NVML.file);
        let agent = machine.binary("librtswap_cuda.so");
        Ok(Self {
            drivers: newest_of_each_branch(folder, CUDA)?,
            nvmls: newest_of_each_branch(folder, NVML)?,
            simulated: Library::read("simgpu", &simulated, CUDA)?,
            simulated_nvml: Library::read("simgpu", &simulated_nvml, NVML)?,
            binaries: agent.parent().unwrap_or(Path::new(".")).to_owned(),
            machine,
        })
    }

    /// Asks a real library.
    fn probe(&self) -> Probe {
        Probe::new(&self.binaries)
    }

    /// Asks the simulated one, which has no device.
    fn probe_of_simulated(&self) -> Probe {
        self.probe()
            .with("SIMGPU_DIR", self.machine.simgpu_dir())
            .with("CUDA_VISIBLE_DEVICES", "-1")
    }
}

/// Makes all checks, and hands each row on as it comes.
pub fn all(bench: &Bench, mut tell: impl FnMut(Row)) -> Result<()> {
    names::check(bench)?.into_iter().for_each(&mut tell);
    lookups::check(bench)?.into_iter().for_each(&mut tell);
    codes::check(bench)?.into_iter().for_each(&mut tell);
    tables::check(bench)?.into_iter().for_each(&mut tell);
    agent::check(bench)?.into_iter().for_each(&mut tell);
    nvml::check(bench).into_iter().for_each(&mut tell);
    daemon::check(bench)?.into_iter().for_each(&mut tell);
    Ok(())
}
