//! The process and thread at the other end of a socket, by descriptors that cannot come to mean another
//! one, as a pid can.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process at the other end of a socket.
#[derive(Debug)]
pub struct Peer {
    /// Its effective user id when it connected, as SO_PEERCRED gives it.
    pub uid: u32,
    /// Its id in our PID namespace.
    pub pid: u32,
    /// A pidfd of it, readable once it has ended.
    pub pidfd: OwnedFd,
    /// Its name and start. Read when its connection is accepted, not while it waits for its Welcome.
    pub stat: Stat,
}

impl Peer {
    /// The process that connected `socket`.
    pub fn of<F: AsFd>(socket: F) -> io::Result<Self> {
        let credentials = socket_peercred(&socket)?;
        let pidfd = match peer_pidfd(&socket) {
            Some(pidfd) => pidfd,
            // Before Linux 6.5. The pid may have been reused since the connect: then at worst the session
            // is taken for one of an unrelated process, which knows nothing of it.
            None => pidfd_open(credentials.pid, PidfdFlags::empty())?,
        };
        let pid = credentials.pid.as_raw_pid() as u32;
        Ok(Self {
            uid: credentials.uid.as_raw(),
            pid,
            pidfd,
            stat: stat(pid).unwrap_or_else(Stat::unknown),
        })
    }

    /// Reads name and start again if they could not be read: descriptors may have been short.
    pub fn ensure_stat(&mut self) {
        if self.stat.start_ticks == 0 {
            self.stat = stat(self.pid).unwrap_or_else(Stat::unknown);
        }
    }
}

/// SO_PEERPIDFD, where the kernel has it.
fn peer_pidfd<F: AsFd>(socket: &F) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd: i32 = -1;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: both pointers are to locals of the lengths given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if result != 0 || fd < 0 {
        return None;
    }
    // SAFETY: on success the kernel made this descriptor for us alone.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a process by its id.
pub fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether the process behind a pidfd has ended.
pub fn has_ended<F: AsFd>(pidfd: F) -> bool {
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    let at_once = Timespec::default();
    matches!(poll(&mut polled, Some(&at_once)), Ok(1..))
}

/// Whether each of the processes behind these pidfds has ended, in their order.
pub fn have_ended<'a>(pidfds: impl Iterator<Item = &'a OwnedFd>) -> Vec<bool> {
    let mut polled: Vec<_> = pidfds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    // If the call fails, all count as living.
    let _ = poll(&mut polled, Some(&Timespec::default()));
    let ended = |polled: &PollFd<'_>| !polled.revents().is_empty();
    polled.iter().map(ended).collect()
}

/// The process or thread that a pidfd stands for, in our PID namespace; none once it has ended.
pub fn pidfd_id<F: AsFd>(pidfd: F) -> Option<u32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd());
    let id = field(&path, "Pid:")?.trim().parse().ok()?;
    (id != 0).then_some(id)
}

/// The id of the thread behind the pidfd `thread`, if it is one of the process `pid`. The check matters
/// because an agent may send any pidfd: a doorbell must not signal another program's thread.
pub fn thread_of<F: AsFd>(thread: F, pid: u32) -> Option<u32> {
    let tid = pidfd_id(&thread)?;
    let inside = fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(false);
    // Alive before and after the check, so the id was not reused between.
    (inside && pidfd_id(&thread) == Some(tid)).then_some(tid)
}

/// The id of the thread that has the id `tid` in the PID namespace of its process `pid`. In a namespace
/// other than ours only the first 256 threads are searched: a process may have very many, and the
/// dispatch thread must not spend its time on them.
pub fn thread_by_own_id(pid: u32, tid: u32) -> Option<u32> {
    if own_id(pid, tid) == Some(tid) {
        return Some(tid);
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads
        .take(THREADS)
        .filter_map(Result::ok)
        .find_map(|entry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            (own_id(pid, thread) == Some(tid)).then_some(thread)
        })
}

const THREADS: usize = 256;

/// The id of thread `thread` of process `pid` in its own PID namespace.
fn own_id(pid: u32, thread: u32) -> Option<u32> {
    let ids = field(&format!("/proc/{pid}/task/{thread}/status"), "NSpid:")?;
    ids.split_whitespace().next_back()?.parse().ok()
}

/// What a file of /proc says after `name`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.to_owned())
}

/// Reads a whole file of /proc, with fewer system calls than `fs::read_to_string`.
fn read(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut text = vec![0; 4096];
    let mut length = 0;
    loop {
        length += file.read(&mut text[length..]).ok()?;
        if length < text.len() {
            return Some(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        text.resize(2 * length, 0);
    }
}

/// The real user id of a process.
pub fn owner(pid: u32) -> Option<u32> {
    // The owner of the folder would not do: it is root where the process may not be traced.
    let users = field(&format!("/proc/{pid}/status"), "Uid:")?;
    users.split_whitespace().next()?.parse().ok()
}

/// Name and start of a process.
#[derive(Debug)]
pub struct Stat {
    /// Its short name, valid as the name of a task.
    pub comm: String,
    /// When it started, in clock ticks since boot: with its id, its identity until the next boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Of a process that is gone.
    fn unknown() -> Self {
        Self {
            comm: task_name(""),
            start_ticks: 0,
        }
    }
}

/// Reads name and start of a process.
pub fn stat(pid: u32) -> Option<Stat> {
    // Of its first thread, which started with it: what the kernel sums up over all threads of a process
    // takes long where there are thousands.
    let stat = read(&format!("/proc/{pid}/task/{pid}/stat"))?;
    // The name in parentheses may hold anything; field 22 counts from behind it.
    let (front, rest) = stat.rsplit_once(')')?;
    let (_, name) = front.split_once('(')?;
    Some(Stat {
        comm: task_name(name),
        start_ticks: rest.split_whitespace().nth(19)?.parse().ok()?,
    })
}

/// Whether a process is stopped (`T`) or traced (`t`): proc_pid_stat(5).
pub fn is_stopped(pid: u32) -> bool {
    let state = || {
        let stat = read(&format!("/proc/{pid}/stat"))?;
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next()
    };
    matches!(state(), Some('T' | 't'))
}

/// When a process started, as [`Stat::start_ticks`].
pub fn start_ticks(pid: u32) -> Option<u64> {
    Some(stat(pid)?.start_ticks)
}

/// The short name of a process, reduced to the characters of a task's name; `process` where none are left.
fn task_name(comm: &str) -> String {
    let name: String = comm
        .trim()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        "process".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        let pidfd = open_process(pid).unwrap();
        assert_eq!(pidfd_id(&pidfd), Some(pid));
        assert_eq!(thread_of(&pidfd, pid), Some(pid));
        assert_eq!(
            thread_of(&pidfd, 1),
            None,
            "not a thread of another process"
        );
        assert!(start_ticks(pid).is_some());
        assert_eq!(owner(pid), Some(rustix::process::getuid().as_raw()));
        assert!(rtswap_wire::valid_name(&stat(pid).unwrap().comm));
        assert_eq!(thread_by_own_id(pid, u32::MAX), None);
    }

    #[test]
    fn a_file_is_read_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 4095, 4096, 4097, 9000] {
            let text = "x".repeat(length);
            fs::write(&path, &text).unwrap();
            assert_eq!(read(path.to_str().unwrap()), Some(text));
        }
        fs::write(&path, b"a\xffb").unwrap();
        assert_eq!(read(path.to_str().unwrap()).as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn a_name_may_hold_anything() {
        // A thread's: the process's is the test harness's.
        let told = std::thread::spawn(|| {
            rustix::thread::set_name(c") R 1 (\xff x").unwrap();
            stat(rustix::thread::gettid().as_raw_pid().cast_unsigned())
        });
        let told = told.join().unwrap().map(|it| (it.comm, it.start_ticks > 0));
        assert_eq!(told, Some(("__R_1____x".to_owned(), true)));
    }

    #[test]
    fn a_stopped_process_is_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is there");
        let pid = Pid::from_child(&child);
        let is_soon = |expected: bool| {
            (0..200).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                is_stopped(child.id()) == expected
            })
        };
        assert!(!is_stopped(child.id()));
        for (signal, expected) in [
            (rustix::process::Signal::STOP, true),
            (rustix::process::Signal::CONT, false),
        ] {
            rustix::process::kill_process(pid, signal).unwrap();
            assert!(is_soon(expected), "{signal:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_socket_tells_its_peer() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(pidfd_id(&peer.pidfd), Some(peer.pid));
        drop(theirs);
    }
}
