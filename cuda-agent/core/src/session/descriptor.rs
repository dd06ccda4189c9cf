//! Descriptors of ours in a process that is not. Programs close numbers that are not theirs, and
//! get them again for files of their own: whatever uses a number asks first what it is.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use super::headroom::floor;

/// A descriptor by number, and which file it was.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    fd: i32,
    identity: (u64, u64),
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

    /// All eventfds and signalfds share one anonymous inode: this tells them from files, sockets
    /// and pipes.
    fn is_ours(self) -> bool {
        // SAFETY: only asks what the number is, which may be anything.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        identity(fd) == Ok(self.identity)
    }
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
        Ok(Self(Mark { fd, identity }))
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
