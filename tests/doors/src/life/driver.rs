//! Puts a driver of C between the programs of a stage and the simulated one.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::stage::Stage;

/// The driver's name, and that of the simulated one behind it.
const NAME: &[u8] = b"libcuda.so.1\0";
const BEHIND: &[u8] = b"libcudb.so.1\0";

/// The driver of `probes/SOURCE.c`.
pub(super) fn put_before(stage: &Stage<'_>, source: &str) -> Result<()> {
    let folder = stage.machine.driver_dir();
    let mut bytes = fs::read(stage.machine.binary("libsimgpu_cuda.so"))?;
    // The name that the library gives itself must be another one, or the loader takes it for the first.
    let mut renamed = 0;
    for at in 0..bytes.len() - NAME.len() {
        if &bytes[at..at + NAME.len()] == NAME {
            bytes[at..at + NAME.len()].copy_from_slice(BEHIND);
            renamed += 1;
        }
    }
    ensure!(renamed > 0, "the simulated driver has another name");
    fs::write(folder.join("libcudb.so.1"), bytes)?;
    let probes = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
    let source = probes.join(format!("{source}.c"));
    let library = folder.join("libcuda.so.1");
    fs::remove_file(&library)?;
    let output = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-O1",
            "-Wall",
            "-Werror",
            "-shared",
            "-fPIC",
            "-fexceptions",
        ])
        .arg("-Wl,-soname,libcuda.so.1")
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .arg("-L")
        .arg(&folder)
        .args(["-Wl,--no-as-needed", "-l:libcudb.so.1", "-ldl"])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
