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

use crate::bindings;
use crate::library::{CUDA, Library, NVML, newest_of_each_branch};
use crate::probe::Probe;
use crate::report::Row;
use crate::version::NEWEST_KNOWN;

/// What there is to compare.
pub struct Bench {
    /// Real drivers, oldest branch first.
    pub drivers: Vec<Library>,
    /// Real NVML libraries, likewise.
    pub nvmls: Vec<Library>,
    /// The functions that cuda-bindings declares, where it could be had.
    pub declared: Option<Vec<String>>,
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
            declared: bindings::functions(folder)?,
            nvmls: newest_of_each_branch(folder, NVML)?,
            simulated: Library::read("simgpu", &simulated, CUDA)?,
            simulated_nvml: Library::read("simgpu", &simulated_nvml, NVML)?,
            binaries: agent.parent().unwrap_or(Path::new(".")).to_owned(),
            machine,
        })
    }

    /// The drivers that the simulated one is compared with: that of the newest known branch, if it is there, and the newest
    /// of those that came later.
    fn standards(&self) -> impl Iterator<Item = &Library> {
        let known = self.drivers.iter().find(|library| is_newest_known(library));
        let newer = self.drivers.last().filter(|library| library.is_newer());
        known.into_iter().chain(newer)
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

fn is_newest_known(library: &Library) -> bool {
    library.branch() == Some(NEWEST_KNOWN)
}

/// In place of a check that needs the driver of the newest known branch, if it is not there.
fn without_newest_known(drivers: &[Library], check: &'static str) -> Option<Row> {
    let why = format!("there is no {} of branch {NEWEST_KNOWN}", CUDA.file);
    let is_there = drivers.iter().any(is_newest_known);
    (!is_there).then(|| Row::skipped(&NEWEST_KNOWN.to_string(), check, why))
}

/// A row for each library. Of one that is newer nothing is judged, not even that it can be asked.
fn each<'a>(
    libraries: impl IntoIterator<Item = &'a Library>,
    check: &'static str,
    make: impl Fn(&'a Library) -> Result<Row>,
) -> Result<Vec<Row>> {
    let rows = libraries.into_iter().map(|library| {
        let made = make(library);
        if !library.is_newer() {
            return made;
        }
        let failed = |error| Row::new(&library.name, check).faults([format!("{error:#}")]);
        Ok(made.unwrap_or_else(failed).unjudged())
    });
    rows.collect()
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

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn library(name: String) -> Library {
        Library {
            name,
            path: "x".into(),
            exports: [("cuInit".to_owned(), 1)].into(),
        }
    }

    #[test]
    fn only_known_branches_are_judged() {
        let known = library(format!("{NEWEST_KNOWN}.1"));
        let newer = library(format!("{}.1", NEWEST_KNOWN + 1));
        let faulty =
            |library: &Library| Ok(Row::new(&library.name, "x").faults(["a fault".to_owned()]));
        let rows = each([&known, &newer], "x", faulty).unwrap();
        assert_eq!((rows[0].faults.len(), rows[0].unjudged.len()), (1, 0));
        assert_eq!((rows[1].faults.len(), rows[1].unjudged.len()), (0, 1));
        let failing = |_: &Library| bail!("it does not start");
        let rows = each([&newer], "x", failing).unwrap();
        assert_eq!(rows[0].unjudged, ["it does not start"]);
        assert!(each([&known], "x", failing).is_err());
    }

    #[test]
    fn without_the_newest_known_driver_a_check_is_skipped() {
        let others = [
            library(format!("{}.1", NEWEST_KNOWN - 1)),
            library(format!("{}.1", NEWEST_KNOWN + 1)),
        ];
        let row = without_newest_known(&others, "x").unwrap();
        assert!(row.to_string().contains("SKIPPED: "), "{row}");
        let known = [library(format!("{NEWEST_KNOWN}.1"))];
        assert!(without_newest_known(&known, "x").is_none());
    }
}
