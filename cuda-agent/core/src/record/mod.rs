//! `RTSWAP_RECORD=FILE`: what this process allocates and when its jobs run, for `rtswapctl profile`.
//!
//! One JSON object a line, in FILE with the process id behind a dot. Each line is one write to a file
//! that is only appended to. A file that cannot be written is said once, and the program goes on.
//! Off, which is the default, it costs a null check where an allocation or a job is made.
//!
//! `memory` has the lines of allocations, `job` those of jobs.

mod job;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt::{Arguments, Display, Formatter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

pub(crate) use job::JobTimes;
pub(crate) use memory::AllocKind;

use crate::log::say;
use crate::session::{Descriptor, Mark};
use crate::signals::{block_all, forget, is_pending, restore};

/// The version of the lines.
const VERSION: u32 = 1;
/// The most bytes of a job's name, as of a task's.
const NAME_MOST: usize = 63;

/// A file that takes lines.
#[derive(Debug)]
pub struct Recorder {
    file: Descriptor,
    path: PathBuf,
    /// A line could not be written: no other is tried.
    failed: AtomicBool,
    /// A name that cannot be recorded was said.
    misnamed: AtomicBool,
}

impl Recorder {
    /// Opens the file of this process and writes the first line. Nothing where the file cannot be opened,
    /// which is said.
    pub fn open(path: &Path) -> Option<Arc<Self>> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        // A FIFO without a reader must not hold the program up.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = match opened.and_then(Descriptor::new) {
            Ok(file) => file,
            Err(error) => {
                unwritable(&path, error);
                return None;
            }
        };
        let recorder = Self {
            file,
            path,
            failed: AtomicBool::new(false),
            misnamed: AtomicBool::new(false),
        };
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        recorder.line(format_args!(
            r#"{{"event":"start","version":{VERSION},"pid":{},"program":"{}","ns":{}}}"#,
            std::process::id(),
            Escaped(&program),
            now_ns(),
        ));
        Some(Arc::new(recorder))
    }

    /// For the child of a fork.
    pub(crate) fn mark(&self) -> Mark {
        self.file.mark()
    }

    /// Appends a line in one write.
    fn line(&self, text: Arguments<'_>) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.append(text)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            unwritable(&self.path, error);
        }
    }

    fn append(&self, text: Arguments<'_>) -> rustix::io::Result<()> {
        // The program closed it, or has another file under its number.
        let file = self.file.get().ok_or(Errno::BADF)?;
        let line = format!("{text}\n");
        // Neither a reader that is gone nor a limit on file sizes may end the program.
        let before = block_all().map_err(|_| Errno::AGAIN)?;
        let own = [libc::SIGPIPE, libc::SIGXFSZ].map(|signal| (signal, !is_pending(signal)));
        let written = rustix::io::write(file, line.as_bytes());
        for (signal, own) in own {
            if own && is_pending(signal) {
                forget(signal);
            }
        }
        restore(&before);
        match written? {
            bytes if bytes == line.len() => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }

    /// A job's name, if a profile can have it.
    fn usable(&self, name: &str) -> Option<Box<str>> {
        let letters = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if name.bytes().all(letters) && (1..=NAME_MOST).contains(&name.len()) {
            return Some(name.into());
        }
        if !self.misnamed.swap(true, Ordering::Relaxed) {
            say(format_args!(
                "{name:?} cannot name a job (1 to 63 of A-Z a-z 0-9 . _ -); it is recorded without a name"
            ));
        }
        None
    }
}

fn unwritable(path: &Path, error: Errno) {
    say(format_args!(
        "RTSWAP_RECORD: {} cannot be written: {error}; nothing is recorded from now on",
        path.display().to_string().escape_debug()
    ));
}

/// CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
    seconds * 1_000_000_000 + nanos
}

/// A text within the quotes of JSON.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}
