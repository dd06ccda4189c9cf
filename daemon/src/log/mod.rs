//! The log's way to stderr: over a thread of its own, so that a slow or stuck reader of stderr never
//! blocks the dispatch thread. Lines that do not fit the queue are counted.
//!
//! Here, and nowhere else, lines about users are limited (`quota`) and bytes that would move a terminal are
//! written out.

mod quota;

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rtswap_dbus::text::escape;
use rtswap_engine::output::{Level, LogLine};

use crate::config::subordinates;
use crate::names;
pub(crate) use quota::ANYBODY;
use quota::Quota;

/// The most lines that wait to be written.
const LINES: usize = 4096;

/// The longest time for which the daemon's end waits for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// The longest time until it is said what was left out.
const PACE: Duration = Duration::from_secs(1);

/// One for all threads: each looks at it for as long as a few comparisons take.
static QUOTA: LazyLock<Mutex<Quota>> =
    LazyLock::new(|| Mutex::new(Quota::new(Instant::now(), subordinates())));

enum Item {
    Line(Vec<u8>),
    /// Answered once all lines before it are written.
    Mark(SyncSender<()>),
}

/// The sending end of the log: takes whole lines and never waits.
#[derive(Clone)]
pub struct Log {
    lines: SyncSender<Item>,
    /// The lines that found no room in the queue.
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Starts the thread that writes to `target`.
    pub fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let ours = Arc::clone(&lost);
        let write = move || write_all(target, &waiting, &ours);
        thread::Builder::new().name("log".into()).spawn(write)?;
        Ok(Self { lines, lost })
    }

    /// Waits until what was logged so far is written, or a second has passed.
    pub fn flush(&self) {
        let (reached, done) = sync_channel(1);
        if self.lines.try_send(Item::Mark(reached)).is_ok() {
            // After the bound the remaining lines are given up.
            let _ = done.recv_timeout(FLUSH);
        }
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = escape(text.strip_suffix('\n').unwrap_or(&text)).into_owned() + "\n";
        if self.lines.try_send(Item::Line(text.into_bytes())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what waits until no sender is left, and what was left out or lost.
fn write_all(mut target: impl Write, waiting: &Receiver<Item>, lost: &AtomicU64) {
    loop {
        match waiting.recv_timeout(PACE) {
            // There is no other place to report that the log cannot be written.
            Ok(Item::Line(line)) => drop(target.write_all(&line)),
            Ok(Item::Mark(reached)) => drop(reached.try_send(())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                target,
                "{lost} lines of the log are lost: stderr was not read in time"
            );
        }
        if let Some(text) = quota(Quota::summary) {
            tracing::warn!("{text}");
        }
    }
}

fn quota<T>(look: impl FnOnce(&mut Quota, Instant) -> T) -> T {
    // Its counts are right at every instant.
    let mut quota = QUOTA.lock().unwrap_or_else(PoisonError::into_inner);
    look(&mut quota, Instant::now())
}

/// Whether one more line of that kind about the user `uid` may be written now. Whoever can make the daemon
/// log is asked for here first.
pub(crate) fn may_say(uid: u32, kind: &'static str) -> bool {
    quota(|quota, now| quota.take(now, uid, kind))
}

/// Logs a line of the engine.
pub(crate) fn write(line: &LogLine) {
    let LogLine {
        level,
        text,
        uid,
        task,
        pid,
        gpu,
        kind,
    } = line;
    let of_level = match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
    };
    if uid.is_some_and(|uid| !may_say(uid, kind.unwrap_or(of_level))) {
        return;
    }
    let (task, text) = (task.as_deref(), names::show_all(text));
    match level {
        Level::Error => tracing::error!(task, kind, pid, gpu, "{text}"),
        Level::Warn => tracing::warn!(task, kind, pid, gpu, "{text}"),
        Level::Info => tracing::info!(task, kind, pid, gpu, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    #[test]
    fn nothing_that_moves_a_terminal_is_written() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut log = Log::start(writer).unwrap();
        log.write_all(b"path=/tmp/\x1b[2J\nfake line\xff\xe2\x80\xae\n")
            .unwrap();
        log.flush();
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "path=/tmp/\\u{1b}[2J\\nfake line\u{fffd}\\u{202e}\n");
    }

    #[test]
    fn lines_arrive_and_a_reader_that_does_not_read_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut log = Log::start(writer).unwrap();
        log.write_all(b"first\n").unwrap();
        log.flush();
        let mut first = [0; 6];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"first\n");
        let start = Instant::now();
        // Far more than pipe and queue hold.
        for _ in 0..20_000 {
            log.write_all(&[b'x'; 200]).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
