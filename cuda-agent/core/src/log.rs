//! The few words that the agent says on stderr, if that is what descriptor 2 is: a program may have
//! closed it, and got the number again for a file or a connection of its own.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::AddressFamily;

use crate::signals::{block_all, forget, is_pending, restore};

/// Says one line that the user must see.
pub fn say(text: std::fmt::Arguments<'_>) {
    write_line(text);
}

/// Says one line if RTSWAP_LOG=debug.
pub fn debug(text: std::fmt::Arguments<'_>) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| std::env::var_os("RTSWAP_LOG").is_some_and(|value| value == "debug"))
    {
        write_line(text);
    }
}

/// In one write, so that lines of several processes stay whole; never if it would block.
fn write_line(text: std::fmt::Arguments<'_>) {
    let stderr = stderr();
    let mut writable = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if !is_for_people() || poll(&mut writable, Some(&now)) != Ok(1) {
        return;
    }
    let line = format!("rtswap[{}]: {text}\n", std::process::id());
    // Whoever read it may be gone, which must not end the program.
    let Ok(before) = block_all() else { return };
    let own = !is_pending(libc::SIGPIPE);
    if rustix::io::write(stderr, line.as_bytes()) == Err(Errno::PIPE) && own {
        forget(libc::SIGPIPE);
    }
    restore(&before);
}

fn stderr() -> BorrowedFd<'static> {
    // SAFETY: whatever has the number is only asked, or written to as any library does.
    unsafe { BorrowedFd::borrow_raw(2) }
}

/// A terminal, a pipe, a local socket such as the journal's, or a file that is only written to. A
/// program's own files are mostly opened for reading as well, its connections go elsewhere.
fn is_for_people() -> bool {
    let stderr = stderr();
    let Ok(stat) = fstat(stderr) else {
        return false;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice | FileType::Fifo => true,
        FileType::Socket => rustix::net::sockopt::socket_domain(stderr) == Ok(AddressFamily::UNIX),
        FileType::RegularFile => {
            fcntl_getfl(stderr).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::WRONLY)
        }
        _ => false,
    }
}
