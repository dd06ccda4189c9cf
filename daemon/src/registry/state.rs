//! The file `state` in the runtime folder: what a daemon needs of the one before it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    version: u32,
    /// Of the boot that it is from: times and processes of another one mean nothing.
    boot: String,
    /// The next registration's number.
    pub next: u64,
    /// Registrations, those of `tasks.d` too: their agents know the number.
    pub registrations: Vec<SavedRegistration>,
    /// Sessions.
    pub sessions: Vec<SavedSession>,
    /// When the next job of a name may be eligible, in ns of CLOCK_MONOTONIC: (GPU, name, time).
    pub next_releases: Vec<(String, String, u64)>,
}

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRegistration {
    /// Its number.
    pub id: u64,
    /// Its user.
    pub uid: u32,
    /// Its name.
    pub name: String,
    /// T, D, C in ns, if it is realtime.
    pub timing: Option<(u64, u64, u64)>,
    /// As [`super::Registration::demoted`].
    #[serde(default)]
    pub demoted: bool,
    /// m.
    pub footprint: u64,
    /// mˢ.
    pub swappable: u64,
    /// Where a realtime task lives.
    pub gpu: Option<String>,
    /// What ends it.
    pub origin: SavedOrigin,
    /// The only process that may claim it, and when that started.
    #[serde(default)]
    pub process: Option<(u32, u64)>,
}

/// As [`super::Origin`]. A lease's pipe ends with the daemon: it goes on as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedOrigin {
    /// `Register` or `RegisterWithLease`.
    Call,
    /// `tasks.d`: the file decides, only the number counts.
    File,
    /// A process's own.
    Session,
}

/// One session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSession {
    /// Its registration.
    pub registration: u64,
    /// Its cookie.
    pub cookie: u64,
    /// Its process.
    pub pid: u32,
    /// When that started: tells it from a later one of the same id.
    pub start_ticks: u64,
}

impl std::fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedSession({} of {})", self.pid, self.registration)
    }
}

/// Why the file cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {cause}", path.display())]
pub struct StateError {
    path: PathBuf,
    cause: std::io::Error,
}

/// The file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    fresh: PathBuf,
    written: Option<Vec<u8>>,
}

const VERSION: u32 = 1;

impl StateFile {
    /// In the folder `runtime_dir`.
    pub fn new(runtime_dir: &Path) -> Self {
        Self {
            path: runtime_dir.join("state"),
            fresh: runtime_dir.join("state.new"),
            written: None,
        }
    }

    /// What the daemon before left; nothing where there was none, or where it is of another boot.
    /// A file that makes no sense is told in the log and put aside.
    pub fn load(&self) -> SavedState {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return SavedState::default(),
            Err(error) => {
                tracing::error!(%error, "cannot read {}; starting anew", self.path.display());
                return SavedState::default();
            }
        };
        match serde_json::from_slice::<SavedState>(&text) {
            Ok(state) if state.version == VERSION && state.boot == boot_id() => state,
            Ok(state) => {
                tracing::info!(
                    version = state.version,
                    "{} is of another boot or version; starting anew",
                    self.path.display()
                );
                SavedState::default()
            }
            Err(error) => {
                tracing::error!(%error, "{} makes no sense; starting anew", self.path.display());
                SavedState::default()
            }
        }
    }

    /// Replaces the file at once, if there is news.
    pub fn save(&mut self, mut state: SavedState) -> Result<(), StateError> {
        state.version = VERSION;
        state.boot = boot_id();
        let text = serde_json::to_vec(&state).expect("plain numbers and texts can be written");
        if self.written.as_ref() == Some(&text) {
            return Ok(());
        }
        self.replace(&text).map_err(|cause| StateError {
            path: self.path.clone(),
            cause,
        })?;
        self.written = Some(text);
        Ok(())
    }

    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.fresh)?;
        file.write_all(text)?;
        // The folder is a tmpfs by default, and a state of another boot is not read: no sync.
        fs::rename(&self.fresh, &self.path)
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_saved_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = StateFile::new(folder.path());
        assert_eq!(file.load().next, 0);
        let state = SavedState {
            next: 12,
            sessions: vec![SavedSession {
                registration: 3,
                cookie: u64::MAX,
                pid: 1,
                start_ticks: 2,
            }],
            ..SavedState::default()
        };
        file.save(state.clone()).unwrap();
        let back = file.load();
        assert_eq!((back.next, &back.sessions), (12, &state.sessions));
        let mode = fs::metadata(folder.path().join("state"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(
            !format!("{back:?}").contains(&u64::MAX.to_string()),
            "no cookie in a log"
        );
    }

    #[test]
    fn nonsense_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), "{").unwrap();
        assert_eq!(StateFile::new(folder.path()).load(), SavedState::default());
    }
}
