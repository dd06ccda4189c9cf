//! Checkpoint and journal as one store: what is recorded here is read by the next daemon.

use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use rtswap_engine::saved::{Record, Saved};

use super::checkpoint::{self, State, Writer};
use super::journal::Journal;
use super::shape::{Checkpoint, Line};
use crate::sys::clock::now;

/// Both files. The dispatch thread owns them; checkpoints are written by a thread of their own.
#[derive(Debug)]
pub struct Keeper {
    boot: String,
    journal_path: PathBuf,
    /// None while it cannot be opened or made anew, or while `state` is an older daemon's: no record is
    /// kept. Each checkpoint that was written tries again.
    journal: Option<Journal>,
    writer: Writer,
    /// The number of the last record.
    last: u64,
    /// Whether the last record could not be kept, which is logged.
    is_failing: bool,
    /// Whether the journal could not be shortened after the last checkpoint, which is logged.
    is_long: bool,
}

impl Keeper {
    /// Opens the files in the folder `runtime_dir`, and reads the state that the previous daemon left.
    /// `done` is called on the checkpoint thread with the position to give to [`Self::checkpointed`].
    ///
    /// # Errors
    ///
    /// If the checkpoint thread cannot be started. Files that cannot be read are logged, and left out.
    pub fn open(
        runtime_dir: &Path,
        done: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<(Self, Saved)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default();
        let path = runtime_dir.join("state");
        let journal_path = runtime_dir.join("state.journal");
        let (mut journal, lines) = match open_journal(&journal_path, &boot) {
            Ok((journal, lines)) => (Some(journal), lines),
            Err(error) => {
                tracing::error!(
                    "cannot make {} anew: {error}: going on without it; until there is one, a \
                     restarted rtswapd knows its tasks by checkpoints only",
                    journal_path.display()
                );
                (None, Vec::new())
            }
        };
        let (after, mut saved) = match checkpoint::load(&path, &boot) {
            Some(found) => (found.record, found.saved()),
            None => (Some(0), Saved::default()),
        };
        // By the clock, so that no line of a daemon before, read or not, has a number that is still to come.
        let mut last = now().0;
        for line in lines {
            last = last.max(line.record);
            if after.is_some_and(|after| line.record > after) {
                saved.apply(line.record());
            }
        }
        if after.is_none()
            && let Err(error) = checkpoint::replace(&path, &Checkpoint::new(&boot, last, &saved))
        {
            tracing::error!(
                "{} is of a daemon without a journal, and cannot be written: {error}: until it is, a \
                 restarted rtswapd would not know of what happens now",
                path.display()
            );
            journal = None;
        }
        let keeper = Self {
            writer: Writer::start(path, boot.clone(), done)?,
            boot,
            journal_path,
            // Without a journal that is logged already.
            is_failing: journal.is_none(),
            journal,
            last,
            is_long: false,
        };
        Ok((keeper, saved))
    }

    /// Appends a record to the journal. False if that failed. The first failure is logged, and the first
    /// record that is kept after it.
    pub fn record(&mut self, record: &Record) -> bool {
        let Some(journal) = &mut self.journal else {
            return false;
        };
        let number = self.last + 1;
        let result = journal.append(&self.boot, number, record);
        let was_failing = mem::replace(&mut self.is_failing, result.is_err());
        match result {
            Ok(()) => {
                self.last = number;
                if was_failing {
                    tracing::info!("state.journal is written again");
                }
                true
            }
            Err(error) => {
                if !was_failing {
                    tracing::error!(
                        "cannot write state.journal: {error}: until a checkpoint is written, a \
                         restarted rtswapd would not know of what happens now"
                    );
                }
                false
            }
        }
    }

    /// Hands the whole state, which includes all records so far, to the checkpoint thread.
    pub fn checkpoint(&self, saved: Saved) {
        self.writer.write(State {
            record: self.last,
            position: self.journal.as_ref().map_or(0, Journal::position),
            saved,
        });
    }

    /// Drops the records before `position` from the journal: a checkpoint that has them was written. The
    /// records since its state was taken, which are few, stay. Without a journal, tries again to open one.
    pub fn checkpointed(&mut self, position: u64) {
        let Some(journal) = &mut self.journal else {
            // The checkpoint is newer than all of its lines.
            let opened = open_journal(&self.journal_path, &self.boot);
            self.journal = opened.ok().map(|(journal, _)| journal);
            return;
        };
        let result = journal.drop_before(position);
        let was_long = mem::replace(&mut self.is_long, result.is_err());
        if let Err(error) = result
            && !was_long
        {
            tracing::error!("cannot shorten state.journal: {error}");
        }
    }
}

/// Opens the journal. One that cannot be opened or read is moved aside for an empty one.
fn open_journal(path: &Path, boot: &str) -> io::Result<(Journal, Vec<Line>)> {
    Journal::open(path, boot).or_else(|error| {
        let aside = path.with_extension("journal.bad");
        if fs::rename(path, &aside).is_err() {
            return Err(error);
        }
        tracing::error!(
            "cannot read {}: {error}: starting anew, with the old one as {}",
            path.display(),
            aside.display()
        );
        Journal::open(path, boot)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Seek, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use rtswap_engine::saved::SavedSession;
    use rtswap_engine::{Cookie, RegistrationId};

    use super::super::journal::LIMIT;
    use super::*;

    fn open(folder: &Path) -> (Keeper, Saved, Receiver<u64>) {
        let (done, written) = mpsc::channel();
        let (keeper, saved) = Keeper::open(folder, move |position| {
            let _ = done.send(position);
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
                budgets: vec![],
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

    fn mode(folder: &Path, name: &str) -> u32 {
        let metadata = fs::metadata(folder.join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    }

    fn file(keeper: &mut Keeper) -> &mut File {
        &mut keeper.journal.as_mut().unwrap().file
    }

    /// What this thread logs meanwhile.
    fn logged(act: impl FnOnce()) -> String {
        let mut log = tempfile::tempfile().unwrap();
        let target = log.try_clone().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || target.try_clone().unwrap())
            .finish();
        tracing::subscriber::with_default(subscriber, act);
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        text
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
        assert_eq!(mode(folder.path(), "state.journal"), 0o600);
    }

    #[test]
    fn a_checkpoint_takes_the_place_of_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut saved, written) = open(folder.path());
        assert!(keeper.record(&record(5)));
        saved.apply(record(5));
        keeper.checkpoint(saved.clone());
        let position = written.recv_timeout(BOUND).unwrap();
        // The daemon may be killed between the two files: the record is there twice, and counts once.
        let (_, between, _) = open(folder.path());
        assert_eq!(between, saved);
        keeper.checkpointed(position);
        assert_eq!(journal(folder.path()), "");
        assert!(keeper.record(&record(6)));
        drop(keeper);
        let (_, after, _) = open(folder.path());
        assert_eq!(cookies(&after), [5, 6]);
        assert_eq!(mode(folder.path(), "state"), 0o600);
    }

    #[test]
    fn records_between_a_checkpoint_and_its_end_leave_the_journal_short() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut saved, written) = open(folder.path());
        let mut longest = 0;
        for cookie in 0..10_000 {
            keeper.checkpoint(saved.clone());
            assert!(keeper.record(&record(cookie)));
            saved = Saved::default();
            saved.apply(record(cookie));
            keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
            let length = fs::metadata(folder.path().join("state.journal")).unwrap();
            longest = longest.max(length.len());
            assert!(longest < 1000, "{longest} bytes after {cookie} records");
        }
        drop(keeper);
        let (mut keeper, saved, _) = open(folder.path());
        // The checkpoint has the record before, the journal the last one.
        assert_eq!((cookies(&saved), saved.next), (vec![9998, 9999], 10_000));
        assert!(keeper.record(&record(10_000)));
        assert_eq!(mode(folder.path(), "state.journal"), 0o600);
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut saved, written) = open(folder.path());
        let blocked = folder.path().join("state.new");
        fs::create_dir(&blocked).unwrap();
        assert!(keeper.record(&record(5)));
        saved.apply(record(5));
        keeper.checkpoint(saved.clone());
        assert!(written.recv_timeout(Duration::from_millis(100)).is_err());
        fs::remove_dir(&blocked).unwrap();
        keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
        assert_eq!(journal(folder.path()), "");
        drop(keeper);
        assert_eq!(open(folder.path()).1, saved);
    }

    #[test]
    fn a_daemon_starts_without_a_journal_that_it_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.journal");
        fs::create_dir(&path).unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!(saved, Saved::default());
        assert!(keeper.record(&record(5)));
        drop(keeper);
        assert!(folder.path().join("state.journal.bad").is_dir());
        let other = folder.path().join("other");
        fs::rename(&path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        fs::remove_dir(folder.path().join("state.journal.bad")).unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!(saved, Saved::default(), "a link is not followed");
        assert!(keeper.record(&record(6)));
        assert_eq!(journal(folder.path()).lines().count(), 1);
    }

    #[test]
    fn a_daemon_goes_on_where_no_journal_can_be_had() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("state.journal")).unwrap();
        // A folder does not take the place of a file.
        fs::write(folder.path().join("state.journal.bad"), "").unwrap();
        let log = logged(|| {
            let (mut keeper, _, written) = open(folder.path());
            assert!(!keeper.record(&record(5)) && !keeper.record(&record(6)));
            let mut saved = Saved::default();
            saved.apply(record(5));
            keeper.checkpoint(saved.clone());
            keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
            drop(keeper);
            let (mut keeper, found, written) = open(folder.path());
            assert_eq!(found, saved);
            // With the next checkpoint it tries again.
            fs::remove_file(folder.path().join("state.journal.bad")).unwrap();
            keeper.checkpoint(found);
            keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
            assert!(keeper.record(&record(6)));
            drop(keeper);
            assert_eq!(cookies(&open(folder.path()).1), [5, 6]);
        });
        let said = ["going on without it", "is written again", "cannot write"];
        let said = said.map(|text| log.matches(text).count());
        assert_eq!(said, [2, 1, 0], "{log}");
    }

    #[test]
    fn records_that_are_not_kept_are_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let log = logged(|| {
            let (mut keeper, _, _written) = open(folder.path());
            for at in 0..2 {
                let read_only = File::open(folder.path().join("state.journal")).unwrap();
                let whole = mem::replace(file(&mut keeper), read_only);
                assert!(!keeper.record(&record(3 * at)) && !keeper.record(&record(3 * at + 1)));
                *file(&mut keeper) = whole;
                assert!(keeper.record(&record(3 * at + 2)));
            }
        });
        let count = |text| log.matches(text).count();
        let said = (count("cannot write"), count("is written again"));
        assert_eq!(said, (2, 2), "{log}");
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
        written.recv_timeout(BOUND).unwrap();
        assert!(keeper.record(&record(6)));
        // The daemon is killed before the journal is shortened.
        assert_eq!(journal(folder.path()).lines().count(), 2);
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

    /// A `state` as a daemon that knows no journal writes it: two tasks more, and no session.
    fn write_as_an_older_daemon(folder: &Path) {
        let path = folder.join("state");
        let mut state: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let fields = state.as_object_mut().unwrap();
        fields.remove("record");
        fields.insert("next".into(), 99.into());
        fields.insert("sessions".into(), serde_json::json!([]));
        fs::write(path, state.to_string()).unwrap();
    }

    #[test]
    fn a_journal_from_before_an_older_daemon_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, saved, _written) = open(folder.path());
        keeper.checkpoint(saved);
        assert!(keeper.record(&record(5)));
        drop(keeper);
        write_as_an_older_daemon(folder.path());
        let (mut keeper, saved, _written) = open(folder.path());
        assert_eq!((cookies(&saved), saved.next), (vec![], 99));
        // The daemon is killed before it writes a checkpoint of its own.
        assert!(keeper.record(&record(100)));
        drop(keeper);
        let (_, saved, _) = open(folder.path());
        assert_eq!((cookies(&saved), saved.next), (vec![100], 101));
    }

    #[test]
    fn nothing_is_recorded_beside_an_older_daemons_state() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, saved, _written) = open(folder.path());
        keeper.checkpoint(saved);
        drop(keeper);
        write_as_an_older_daemon(folder.path());
        let blocked = folder.path().join("state.new");
        fs::create_dir(&blocked).unwrap();
        let (mut keeper, saved, written) = open(folder.path());
        assert_eq!(saved.next, 99);
        assert!(!keeper.record(&record(5)));
        fs::remove_dir(&blocked).unwrap();
        keeper.checkpoint(saved);
        keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
        assert!(keeper.record(&record(100)));
        drop(keeper);
        let (_, saved, _) = open(folder.path());
        assert_eq!(cookies(&saved), [100]);
    }

    #[test]
    fn records_that_were_not_read_do_not_come_back_over_a_later_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.journal");
        let (mut keeper, _, _written) = open(folder.path());
        assert!(keeper.record(&record(5)));
        drop(keeper);
        let unread = folder.path().join("unread");
        fs::rename(&path, &unread).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(folder.path().join("state.journal.bad"), "").unwrap();
        let (keeper, saved, _written) = open(folder.path());
        keeper.checkpoint(saved);
        drop(keeper);
        fs::remove_dir(&path).unwrap();
        fs::rename(&unread, &path).unwrap();
        let (_, saved, _) = open(folder.path());
        assert_eq!(saved, Saved::default());
    }

    #[test]
    fn a_journal_that_no_checkpoint_shortens_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, mut saved, written) = open(folder.path());
        let blocked = folder.path().join("state.new");
        fs::create_dir(&blocked).unwrap();
        let log = logged(|| {
            let mut cookie = 0;
            while keeper.record(&record(cookie)) {
                saved.apply(record(cookie));
                cookie += 1;
                assert!(cookie < 20_000, "no end");
            }
            let length = journal(folder.path()).len();
            assert!((LIMIT - 300..=LIMIT).contains(&(length as u64)), "{length}");
            assert!(!keeper.record(&record(cookie)));
        });
        assert_eq!(log.matches("1 MiB").count(), 1, "{log}");
        let (_, before, _) = open(folder.path());
        assert_eq!(before, saved, "what was kept stays");
        keeper.checkpoint(saved.clone());
        fs::remove_dir(&blocked).unwrap();
        keeper.checkpointed(written.recv_timeout(BOUND).unwrap());
        assert!(keeper.record(&record(100_000)));
        drop(keeper);
        saved.apply(record(100_000));
        assert_eq!(open(folder.path()).1, saved);
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
