//! The file `state`, and the thread that replaces it, so that the dispatch thread does not wait for the
//! file system.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rtswap_engine::saved::Saved;

use super::shape::{Checkpoint, VERSION};

/// The checkpoint that the previous daemon left; none where there is none of this boot. One that cannot be
/// read is logged.
pub(super) fn load(path: &Path, boot: &str) -> Option<Checkpoint> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::error!(%error, "cannot read {}; starting anew", path.display());
            return None;
        }
    };
    match serde_json::from_slice::<Checkpoint>(&text) {
        Ok(found) if found.version == VERSION && found.boot == boot => Some(found),
        Ok(found) => {
            tracing::info!(
                version = found.version,
                "{} is of another boot or version; starting anew",
                path.display()
            );
            None
        }
        Err(error) => {
            tracing::error!(%error, "{} makes no sense; starting anew", path.display());
            None
        }
    }
}

/// The handle of the thread. Dropping it waits until the last state is written.
#[derive(Debug)]
pub(super) struct Writer {
    states: Option<mpsc::Sender<(u64, Saved)>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `done` gets the number of the last record in each checkpoint that was written.
    pub(super) fn start(
        path: PathBuf,
        boot: String,
        mut done: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (states, given) = mpsc::channel::<(u64, Saved)>();
        let fresh = path.with_extension("new");
        let thread = thread::Builder::new()
            .name("checkpoints".into())
            .spawn(move || {
                while let Ok(first) = given.recv() {
                    // Each state includes those before it, so only the last one is written.
                    let (number, saved) = given.try_iter().last().unwrap_or(first);
                    let checkpoint = Checkpoint::new(&boot, number, &saved);
                    match replace(&path, &fresh, &checkpoint) {
                        Ok(()) => done(number),
                        Err(error) => tracing::error!(
                            "cannot write {}: {error}: a restarted rtswapd would not know its tasks",
                            path.display()
                        ),
                    }
                }
            })?;
        Ok(Self {
            states: Some(states),
            thread: Some(thread),
        })
    }

    /// Hands over the state after record `number`.
    pub(super) fn write(&self, number: u64, saved: Saved) {
        if let Some(states) = &self.states {
            // A thread that has panicked has said so.
            let _ = states.send((number, saved));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.states = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn replace(path: &Path, fresh: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let text = serde_json::to_vec(checkpoint)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(fresh)?;
    file.write_all(&text)?;
    // The folder is a tmpfs by default, and a state of another boot is not read: no sync.
    fs::rename(fresh, path)
}
