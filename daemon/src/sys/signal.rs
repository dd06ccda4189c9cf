//! Doorbells: a queued signal to one thread, with the cookie as its value.

use std::os::fd::{AsRawFd, OwnedFd};

use rtswap_wire::doorbell::Cookie;
use rustix::io;

/// The thread that a doorbell goes to.
#[derive(Debug)]
pub enum BellThread {
    /// By a PIDFD_THREAD descriptor (Linux 6.9).
    Pidfd(OwnedFd),
    /// By the ids in our PID namespace: `pid` of its process and `tid` of the thread itself.
    #[expect(missing_docs, reason = "the variant's doc says what its fields are")]
    Ids { pid: u32, tid: u32 },
}

/// What the kernel calls `siginfo_t`, with the members of SI_QUEUE.
#[repr(C)]
struct QueuedInfo {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: u32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedInfo>() == size_of::<libc::siginfo_t>());

/// Queues `signal` for `thread`. Fails with ESRCH once the thread has ended.
pub fn ring(thread: &BellThread, signal: i32, cookie: Cookie) -> io::Result<()> {
    const SI_QUEUE: i32 = -1;
    let info = QueuedInfo {
        signal,
        errno: 0,
        code: SI_QUEUE,
        padding: 0,
        pid: std::process::id(),
        uid: rustix::process::getuid().as_raw(),
        value: cookie.0,
        rest: [0; 12],
    };
    let result = match thread {
        // SAFETY: `info` is a siginfo_t in layout and outlives the call.
        BellThread::Pidfd(fd) => unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                fd.as_raw_fd(),
                signal,
                &raw const info,
                0,
            )
        },
        // SAFETY: as above.
        BellThread::Ids { pid, tid } => unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                *pid,
                *tid,
                signal,
                &raw const info,
            )
        },
    };
    if result == 0 {
        return Ok(());
    }
    Err(last_errno())
}

fn last_errno() -> io::Errno {
    let errno = std::io::Error::last_os_error();
    io::Errno::from_io_error(&errno).unwrap_or(io::Errno::INVAL)
}
