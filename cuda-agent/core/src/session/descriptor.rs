//! Descriptors of ours in a process that is not. Programs close numbers that are not theirs, and
//! get them again for files of their own: whatever uses a number asks first what it is.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use super::headroom::floor;

/// What marks an open file as ours: the number of the signal that would tell of input on it, if
/// anybody asked for such signals (F_SETSIG in fcntl(2)). It belongs to the open file, so it tells
/// ours from the program's own of the same kind, and asking for it takes the kernel less than half of
/// what fstat(2) does: each request of a job asks.
const TAG: i32 = 61;
/// linux/include/uapi/asm-generic/fcntl.h; the libc crate has them for musl only.
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;

/// A descriptor by number, and which file it was.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    fd: i32,
    /// Device and inode, for a file that could not be tagged, or not be asked for its tag.
    identity: (u64, u64),
    tagged: bool,
}

impl Mark {
    /// Closes this process's copy, if it is still ours. Async-signal-safe.
    pub fn close(self) {
        if self.is_ours() {
            // SAFETY: still the file that was marked, whose owner is gone: dropped, or the parent
            // of the forked process that this is. Not libc's close, in which a thread may be
            // cancelled.
            unsafe { rustix::io::close(self.fd) };
        }
    }

    /// Whether the number is open, for the file that it was made for. Async-signal-safe.
    pub(crate) fn is_ours(self) -> bool {
        if self.tagged {
            match fcntl(self.fd, F_GETSIG, 0) {
                Ok(signal) => return signal == TAG,
                Err(rustix::io::Errno::BADF) => return false,
                // A sandbox that the program has entered since.
                Err(_) => {}
            }
        }
        // SAFETY: only asks what the number is, which may be anything.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        // All eventfds and signalfds share one anonymous inode: this tells them from files, sockets
        // and pipes.
        identity(fd) == Ok(self.identity)
    }
}

/// The system call, without what libc's does beside it.
fn fcntl(fd: i32, command: i32, argument: i32) -> rustix::io::Result<i32> {
    // SAFETY: the two commands above take and give integers, of whatever the number is.
    let result = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) };
    i32::try_from(result)
        .ok()
        .filter(|&it| it >= 0)
        .ok_or_else(|| {
            let error = std::io::Error::last_os_error();
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::INVAL)
        })
}

fn identity(fd: impl AsFd) -> rustix::io::Result<(u64, u64)> {
    rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

/// An open descriptor of ours, unless the program closed it.
#[derive(Debug)]
pub struct Descriptor(Mark);

impl Descriptor {
    /// Takes it over, and moves it out of the program's way where the limit allows.
    pub fn new(fd: OwnedFd) -> rustix::io::Result<Self> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&fd, floor()).unwrap_or(fd);
        let identity = identity(&fd)?;
        let fd = fd.into_raw_fd();
        Ok(Self(Mark {
            fd,
            identity,
            tagged: fcntl(fd, F_SETSIG, TAG).is_ok(),
        }))
    }

    /// The descriptor, for one use. Nothing if the program closed it.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: ours, and open; a program that closes it just now makes the use fail.
        self.0
            .is_ours()
            .then(|| unsafe { BorrowedFd::borrow_raw(self.0.fd) })
    }

    /// For the child of a fork.
    pub fn mark(&self) -> Mark {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::session::Headroom;

    #[test]
    fn ours_lie_where_the_floor_is() {
        let room = Headroom::make().expect("the tests may have enough descriptors");
        let memfd = rustix::fs::memfd_create("ours", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let ours = Descriptor::new(memfd).unwrap();
        drop(room);
        let number = ours.get().expect("still open").as_raw_fd();
        assert!(number >= floor(), "{number}");
    }

    #[test]
    fn an_eventfd_of_the_program_under_the_same_number_is_told_apart() {
        let eventfd = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let ours = Descriptor::new(eventfd()).unwrap();
        let number = ours.get().expect("still ours").as_raw_fd();
        let theirs = eventfd();
        // SAFETY: as a program does that puts its descriptors where it wants them.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        assert!(ours.get().is_none());
        drop(ours);
        // SAFETY: closes the copy that is the program's.
        assert_eq!(unsafe { libc::close(number) }, 0, "it was left to it");
    }

    #[test]
    fn what_has_no_tag_is_known_by_its_file() {
        let memfd = rustix::fs::memfd_create("ours", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mark = Descriptor::new(memfd).unwrap();
        let untagged = Mark {
            tagged: false,
            ..mark.mark()
        };
        assert!(untagged.is_ours());
        drop(mark);
        assert!(!untagged.is_ours());
    }

    #[test]
    fn a_number_taken_by_the_program_is_left_to_it() {
        let memfd = |name: &str| rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC);
        let ours = Descriptor::new(memfd("ours").unwrap()).unwrap();
        let number = ours.get().expect("still ours").as_raw_fd();
        assert!(number >= floor());
        let theirs = memfd("theirs").unwrap();
        // SAFETY: what a program does that closes every descriptor and opens files.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        assert!(ours.get().is_none());
        drop(ours);
        // SAFETY: only asks whether the number is open, and then closes it.
        unsafe {
            assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "the program's");
            libc::close(number);
        }
    }
}
