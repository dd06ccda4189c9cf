//! What was measured on GPUs, kept in files: the calibration in effect of each GPU, and a later one that waits until nothing
//! rests on that. An agent outlives the daemon with the chunks that it has, so both are needed after a restart.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rtswap_engine::Uuid;
use rtswap_engine::config::Calibration;
use rtswap_engine::input::StoredCalibration;
use rtswap_taskset::calibration;

/// By which systemd names the folder of what is kept over a boot.
const STATE_VARIABLE: &str = "STATE_DIRECTORY";
const FOLDER: &str = "calibration";
const IN_EFFECT: &str = "toml";
const NEXT: &str = "next.toml";

/// The folder of the files.
#[derive(Clone, Debug)]
pub struct Calibrations {
    folder: PathBuf,
}

impl Calibrations {
    /// In systemd's folder for the daemon, else in `runtime_dir`.
    pub fn of(runtime_dir: &Path) -> Self {
        let state = std::env::var_os(STATE_VARIABLE).filter(|folder| !folder.is_empty());
        Self {
            folder: Self::among(state, runtime_dir).join(FOLDER),
        }
    }

    /// Of several folders systemd's variable names the first.
    fn among(state: Option<OsString>, runtime_dir: &Path) -> PathBuf {
        let first = state.and_then(|folders| {
            let folders = folders.into_string().ok()?;
            folders.split(':').next().map(PathBuf::from)
        });
        first.unwrap_or_else(|| runtime_dir.to_owned())
    }

    /// All that are kept. A file that is wrong is logged and counts for nothing.
    pub(crate) fn read(&self) -> Vec<StoredCalibration> {
        let files = match fs::read_dir(&self.folder) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::error!(%error, "cannot read {}", self.folder.display());
                return Vec::new();
            }
        };
        let names = files
            .flatten()
            .filter_map(|file| file.file_name().into_string().ok());
        let uuids = names.filter_map(|name| name.split_once('.')?.0.parse().ok());
        let mut uuids: Vec<Uuid> = uuids.collect();
        uuids.sort_unstable();
        uuids.dedup();
        let stored = uuids.into_iter().map(|gpu| StoredCalibration {
            gpu,
            in_effect: self.read_one(gpu, IN_EFFECT),
            next: self.read_one(gpu, NEXT),
        });
        stored.collect()
    }

    fn read_one(&self, gpu: Uuid, kind: &str) -> Option<Calibration> {
        let path = self.path(gpu, kind);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::error!(%error, "cannot read {}", path.display());
                return None;
            }
        };
        match parse(&text) {
            Ok((of, calibration)) if of == gpu => Some(calibration),
            Ok((of, _)) => {
                tracing::error!("{} is of {of}: it is not used", path.display());
                None
            }
            Err(error) => {
                tracing::error!("{}:{error}; it is not used", path.display());
                None
            }
        }
    }

    /// Keeps the `text` of a calibration of `gpu` that is to count, so that no crash leaves half of it.
    pub(crate) fn keep(&self, gpu: Uuid, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(gpu, NEXT);
        let temporary = path.with_extension("new");
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        // What the caller is told has failed must not count later.
        synced.inspect_err(|_| drop(fs::remove_file(&path)))
    }

    /// The one that was kept last counts now. After a crash the daemon does the same again.
    pub(crate) fn promote(&self, gpu: Uuid) {
        let (from, to) = (self.path(gpu, NEXT), self.path(gpu, IN_EFFECT));
        match fs::rename(&from, &to) {
            // One and the same may be promoted twice.
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::error!(%error, "cannot rename {} to {}", from.display(), to.display());
            }
            _ => {}
        }
    }

    fn path(&self, gpu: Uuid, kind: &str) -> PathBuf {
        self.folder.join(format!("{gpu}.{kind}"))
    }
}

/// A calibration with its GPU, or what is wrong with the text.
pub(crate) fn parse(text: &str) -> Result<(Uuid, Calibration), String> {
    let read = calibration::parse(text).map_err(|error| error.to_string())?;
    let gpu = read.gpu.parse();
    let gpu = gpu.map_err(|error| format!("gpu: {:?} {error}", read.gpu))?;
    let calibration = Calibration {
        measured: read.measured,
        chunk: read.chunk,
        duplex: read.duplex,
        swap_cost: read.swap_cost,
    };
    Ok((gpu, calibration))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "GPU-00000000-0000-0000-0000-000000000001";

    fn text(chunk: &str) -> String {
        let cost = "base_us = 1\nper_chunk_us = 2\ngib_per_s = 3\n";
        format!(
            "version = 1\ngpu = \"{GPU}\"\nmeasured = 2026-11-27T13:00:00Z\nchunk = \"{chunk}\"\nduplex = 0.9\n\
             [swap_cost.out]\n{cost}[swap_cost.in]\n{cost}"
        )
    }

    #[test]
    fn one_waits_beside_the_one_in_effect_until_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Calibrations {
            folder: folder.path().join(FOLDER),
        };
        assert!(kept.read().is_empty());
        let (gpu, first) = parse(&text("4MiB")).unwrap();
        kept.keep(gpu, &text("4MiB")).unwrap();
        kept.promote(gpu);
        kept.keep(gpu, &text("8MiB")).unwrap();
        let stored = kept.read();
        assert_eq!((stored.len(), stored[0].gpu), (1, gpu));
        assert_eq!(stored[0].in_effect, Some(first));
        assert_eq!(stored[0].next.unwrap().chunk.0, 8 << 20);
        kept.promote(gpu);
        kept.promote(gpu);
        let stored = kept.read();
        assert_eq!(stored[0].in_effect.unwrap().chunk.0, 8 << 20);
        assert_eq!(stored[0].next, None);
    }

    #[test]
    fn a_file_that_is_wrong_or_of_another_gpu_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Calibrations {
            folder: folder.path().to_owned(),
        };
        fs::write(folder.path().join(format!("{GPU}.toml")), "version = 7\n").unwrap();
        let other = GPU.replace('1', "2");
        fs::write(folder.path().join(format!("{other}.toml")), text("4MiB")).unwrap();
        let stored = kept.read();
        assert_eq!(stored.len(), 2);
        assert!(
            stored
                .iter()
                .all(|it| it.in_effect.is_none() && it.next.is_none())
        );
    }

    #[test]
    fn systemd_says_where() {
        let run = Path::new("/run/x");
        let among = |state: Option<&str>| Calibrations::among(state.map(OsString::from), run);
        assert_eq!(among(None), run);
        assert_eq!(
            among(Some("/var/lib/rtswap:/var/lib/b")),
            Path::new("/var/lib/rtswap")
        );
    }
}
