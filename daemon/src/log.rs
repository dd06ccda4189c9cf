//! The log's way to stderr: over a thread of its own, so that a slow or stuck reader of stderr never
//! blocks the dispatch thread. Lines that do not fit the queue are dropped.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rtswap_engine::output::{Level, LogLine};

/// The most lines that wait to be written.
const LINES: usize = 4096;

/// The longest time for which the daemon's end waits for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    /// Answered once all lines before it are written.
    Mark(SyncSender<()>),
}

/// The sending end of the log: takes whole lines and never waits.
#[derive(Clone)]
pub struct Log(SyncSender<Item>);

impl Log {
    /// Starts the thread that writes to `target`.
    pub fn start(mut target: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(LINES);
        thread::Builder::new().name("log".into()).spawn(move || {
            for item in waiting {
                match item {
                    // There is no other place to report that the log cannot be written.
                    Item::Line(line) => drop(target.write_all(&line)),
                    Item::Mark(reached) => drop(reached.try_send(())),
                }
            }
        })?;
        Ok(Self(lines))
    }

    /// Waits until what was logged so far is written, or a second has passed.
    pub fn flush(&self) {
        let (reached, done) = sync_channel(1);
        if self.0.try_send(Item::Mark(reached)).is_ok() {
            // After the bound the remaining lines are given up.
            let _ = done.recv_timeout(FLUSH);
        }
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Dropped if the queue is full.
        let _ = self.0.try_send(Item::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs a line of the engine.
pub(crate) fn write(line: &LogLine) {
    let LogLine {
        level,
        text,
        task,
        pid,
        gpu,
        kind,
    } = line;
    let task = task.as_deref();
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
