//! Compiles the probes: each file of `probes/` is one program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::ran;
use crate::table::Probe;

/// Shared libraries that are linked against the driver or NVML and that probes load, by the names of
/// their sources.
const LIBRARIES: [&str; 3] = ["neighbour", "constructor", "monitor"];

/// The file of [`Programs::ran`].
const RAN: &str = "ran";

/// The compiled programs, in a folder that goes with them.
pub struct Programs {
    folder: TempDir,
    paths: BTreeMap<&'static str, PathBuf>,
}

impl Programs {
    /// Compiles what `probes` need, with the driver libraries of `driver_folder` at hand.
    pub fn compile(probes: &[&Probe], driver_folder: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("rtswap-doors-").tempdir()?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
        for library in LIBRARIES {
            let path = folder.path().join(format!("lib{library}.so"));
            let mut shared = compiler();
            shared
                .args(["-shared", "-fPIC"])
                .arg(sources.join(format!("{library}.c")));
            finish(shared, &path, driver_folder)?;
        }
        let mut paths = BTreeMap::new();
        for probe in probes {
            if paths.contains_key(probe.file) {
                continue;
            }
            let path = folder.path().join(probe.file);
            let mut program = compiler();
            program.arg(sources.join(format!("{}.c", probe.file)));
            finish(program, &path, driver_folder)?;
            paths.insert(probe.file, path);
        }
        ran::make(&folder.path().join(RAN))?;
        Ok(Self { folder, paths })
    }

    /// Where the agents note which hooks ran.
    pub fn ran(&self) -> PathBuf {
        self.folder.path().join(RAN)
    }

    /// The program of a source file.
    pub fn path(&self, file: &str) -> &Path {
        &self.paths[file]
    }

    /// Where they lie, and the shared libraries `lib*.so` beside them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn compiler() -> Command {
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-agent/include");
    command
        .args(["-O1", "-g", "-Wall", "-Werror", "-pthread", "-I"])
        .arg(headers);
    command
}

fn finish(mut command: Command, output: &Path, driver_folder: &Path) -> Result<()> {
    command.arg("-o").arg(output).arg("-L").arg(driver_folder);
    command.args(["-l:libcuda.so.1", "-ldl"]);
    // Most programs have nothing to do with NVML, which must not be loaded into them.
    command.args(["-Wl,--as-needed", "-l:libnvidia-ml.so.1"]);
    let Output { status, stderr, .. } = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{}", String::from_utf8_lossy(&stderr));
    }
    ensure!(output.exists(), "{} was not made", output.display());
    Ok(())
}
