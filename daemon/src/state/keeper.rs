//! Checkpoint and journal as one store: what is recorded here is read by the next daemon.

use std::fs;
use std::io;
use std::path::Path;

use rtswap_engine::saved::{Record, Saved};

use super::checkpoint::{self, Writer};
use super::journal::Journal;
use super::shape::Checkpoint;

/// Both files. The dispatch thread owns them; checkpoints are written by a thread of their own.
#[derive(Debug)]
pub struct Keeper {
    boot: String,
    journal: Journal,
    writer: Writer,
    /// The number of the last record.
    last: u64,
}

impl Keeper {
    /// Opens the files in the folder `runtime_dir`, and reads the state that the previous daemon left.
    /// `done` is called on the checkpoint thread with the number to give to [`Self::checkpointed`].
    pub fn open(
        runtime_dir: &Path,
        done: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<(Self, Saved)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default();
        let path = runtime_dir.join("state");
        let (journal, lines) = Journal::open(&runtime_dir.join("state.journal"), &boot)?;
        let checkpoint = checkpoint::load(&path, &boot);
        let mut last = checkpoint.as_ref().map_or(0, |found| found.record);
        let mut saved = checkpoint.map(Checkpoint::saved).unwrap_or_default();
        for line in lines {
            if line.record > last {
                last = line.record;
                saved.apply(line.record());
            }
        }
        let keeper = Self {
            writer: Writer::start(path, boot.clone(), done)?,
            boot,
            journal,
            last,
        };
        Ok((keeper, saved))
    }

    /// Appends a record to the journal. False if that failed, which is logged.
    pub fn record(&mut self, record: &Record) -> bool {
        let number = self.last + 1;
        match self.journal.append(&self.boot, number, record) {
            Ok(()) => {
                self.last = number;
                true
            }
            Err(error) => {
                tracing::error!(
                    "cannot write state.journal: {error}: a restarted rtswapd would not know of this"
                );
                false
            }
        }
    }

    /// Hands the whole state, which includes all records so far, to the checkpoint thread.
    pub fn checkpoint(&self, saved: Saved) {
        self.writer.write(self.last, saved);
    }

    /// Empties the journal after a checkpoint with the records up to `number` was written, unless the
    /// journal has later records.
    pub fn checkpointed(&mut self, number: u64) {
        if number == self.last
            && let Err(error) = self.journal.clear()
        {
            tracing::error!("cannot empty state.journal: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use rtswap_engine::saved::SavedSession;
    use rtswap_engine::{Cookie, RegistrationId};

    use super::*;

    fn open(folder: &Path) -> (Keeper, Saved, Receiver<u64>) {
        let (done, written) = mpsc::channel();
        let (keeper, saved) = Keeper::open(folder, move |number| {
            let _ = done.send(number);
        })
        .unwrap();
        (keeper, saved, written)
    }

    fn record(cookie: u64) -> Record {
        Record {
            next: cookie + 1,
            sessions: vec![SavedSession {
                registration: RegistrationId(3),
                cookie: Cookie(cookie),
                pid: 1,
                start_ticks: 2,
            }],
            ..Record::default()
        }
    }

    fn cookies(saved: &Saved) -> Vec<u64> {
        saved.sessions.iter().map(|it| it.cookie.0).collect()
    }

    fn journal(folder: &Path) -> String {
        fs::read_to_string(folder.join("state.journal")).unwrap()
    }

    const BOUND: Duration = Duration::from_secs(10);

    #[test]
    fn what_is_recorded_comes_back_without_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!(saved, Saved::default());
        assert!(keeper.record(&record(5)) && keeper.record(&record(6)));
        let left = Record {
            left: vec![Cookie(5)],
            ..Record::default()
        };
        assert!(keeper.record(&left));
        drop(keeper);
        let (_, saved, _) = open(folder.path());
        assert_eq!((cookies(&saved), saved.next), (vec![6], 7));
        let mode = fs::metadata(folder.path().join("state.journal"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_checkpoint_takes_the_place_of_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut saved, written) = open(folder.path());
        assert!(keeper.record(&record(5)));
        saved.apply(record(5));
        keeper.checkpoint(saved.clone());
        let number = written.recv_timeout(BOUND).unwrap();
        // The daemon may be killed between the two files: the record is there twice, and counts once.
        let (_, between, _) = open(folder.path());
        assert_eq!(between, saved);
        keeper.checkpointed(number);
        assert_eq!(journal(folder.path()), "");
        assert!(keeper.record(&record(6)));
        drop(keeper);
        let (_, after, _) = open(folder.path());
        assert_eq!(cookies(&after), [5, 6]);
        let mode = fs::metadata(folder.path().join("state"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn records_that_a_checkpoint_holds_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, _, written) = open(folder.path());
        assert!(keeper.record(&record(5)));
        // The state says something else than the record by now.
        keeper.checkpoint(Saved {
            next: 9,
            ..Saved::default()
        });
        let number = written.recv_timeout(BOUND).unwrap();
        assert!(keeper.record(&record(6)));
        keeper.checkpointed(number);
        assert_eq!(
            journal(folder.path()).lines().count(),
            2,
            "one is not in it"
        );
        drop(keeper);
        let (mut keeper, saved, _) = open(folder.path());
        assert_eq!((cookies(&saved), saved.next), (vec![6], 9));
        assert!(keeper.record(&record(7)), "numbers go on");
        drop(keeper);
        let (_, saved, _) = open(folder.path());
        assert_eq!(cookies(&saved), [6, 7]);
    }

    #[test]
    fn a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, _, _written) = open(folder.path());
        assert!(keeper.record(&record(5)));
        drop(keeper);
        let whole = journal(folder.path());
        let path = folder.path().join("state.journal");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(&whole.as_bytes()[..whole.len() / 2])
            .unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!(cookies(&saved), [5]);
        assert_eq!(journal(folder.path()), whole);
        assert!(keeper.record(&record(6)));
        drop(keeper);
        let (_, saved, _) = open(folder.path());
        assert_eq!(cookies(&saved), [5, 6]);
    }

    #[test]
    fn nonsense_and_another_boot_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), "{").unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!(saved, Saved::default());
        assert!(keeper.record(&record(5)));
        drop(keeper);
        let other = journal(folder.path()).replacen("\"boot\":\"", "\"boot\":\"x", 1);
        fs::write(folder.path().join("state.journal"), other).unwrap();
        let (_, saved, _) = open(folder.path());
        assert_eq!(saved, Saved::default());
    }
}
