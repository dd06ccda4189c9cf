//! The file `state`, and the thread that replaces it, so that the dispatch thread does not wait for the
//! file system.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

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

/// A state to write.
#[derive(Debug)]
pub(super) struct State {
    /// The number of the last record that it includes.
    pub(super) record: u64,
    /// The position in the journal after that record, in bytes.
    pub(super) position: u64,
    pub(super) saved: Saved,
}

/// How long the thread waits before it tries again to write a state, unless it gets another one.
const RETRY: Duration = Duration::from_secs(1);

/// The handle of the thread. Dropping it waits until the last state is written, or cannot be.
#[derive(Debug)]
pub(super) struct Writer {
    states: Option<mpsc::Sender<State>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `done` gets the position in the journal of each state once it is written.
    pub(super) fn start(
        path: PathBuf,
        boot: String,
        done: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (states, given) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("checkpoints".into())
            .spawn(move || write_all(&given, &path, &boot, done))?;
        Ok(Self {
            states: Some(states),
            thread: Some(thread),
        })
    }

    /// Hands over a state.
    pub(super) fn write(&self, state: State) {
        if let Some(states) = &self.states {
            // A thread that has panicked has said so.
            let _ = states.send(state);
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

/// Writes each state, the last one of those that wait, until no more can come. A state that cannot be
/// written is tried again, which is logged when it begins and when it ends.
fn write_all(given: &mpsc::Receiver<State>, path: &Path, boot: &str, mut done: impl FnMut(u64)) {
    let mut failed: Option<State> = None;
    loop {
        let next = match failed {
            None => given.recv().map_err(RecvTimeoutError::from),
            Some(_) => given.recv_timeout(RETRY),
        };
        let is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
        let has_failed = failed.is_some();
        // Each state includes those before it, so only the last one is written.
        let last = next
            .ok()
            .map(|first| given.try_iter().last().unwrap_or(first));
        let Some(state) = last.or(failed.take()) else {
            return;
        };
        let checkpoint = Checkpoint::new(boot, state.record, &state.saved);
        match replace(path, &checkpoint) {
            Ok(()) => {
                if has_failed {
                    tracing::info!("{} is written again", path.display());
                }
                failed = None;
                done(state.position);
            }
            Err(error) => {
                if !has_failed {
                    tracing::error!(
                        "cannot write {}: {error}: trying again; until then a restarted rtswapd \
                         knows its tasks by state.journal only",
                        path.display()
                    );
                }
                failed = Some(state);
            }
        }
        if is_over {
            return;
        }
    }
}

/// Writes a checkpoint in the place of the one before.
pub(super) fn replace(path: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&fresh)?;
    let mut file = BufWriter::new(file);
    serde_json::to_writer(&mut file, checkpoint)?;
    file.flush()?;
    // The folder is a tmpfs by default, and a state of another boot is not read: no sync.
    fs::rename(fresh, path)
}
