//! Ringing an eventfd that lives in a stranger's process.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Where the agent's descriptors lie: above those that a program meets by counting up.
const HIGH: i32 = 500;

/// Moves a descriptor out of the program's way, where the limit allows.
pub fn keep_high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, HIGH).unwrap_or(fd)
}

/// A descriptor of ours by number, for the child of a fork to close if it is still ours there.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    fd: i32,
    identity: (u64, u64),
}

impl Mark {
    /// Marks an open descriptor.
    pub fn of(fd: &OwnedFd) -> rustix::io::Result<Self> {
        Ok(Self {
            fd: fd.as_raw_fd(),
            identity: identity(fd)?,
        })
    }

    /// Closes this process's copy. Async-signal-safe.
    pub fn close(self) {
        // SAFETY: only asks what the number is, and lets go of it.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        if identity(fd) == Ok(self.identity) {
            // SAFETY: still the file that was marked; in the child of a fork nobody uses it.
            unsafe { libc::close(self.fd) };
        }
    }
}

/// An eventfd. Programs close descriptors that are not theirs and get the number again for a file
/// of their own: no ring may write into that file, so each one checks first what the number is.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    identity: (u64, u64),
}

impl Bell {
    /// Takes the eventfd over.
    pub fn new(fd: OwnedFd) -> rustix::io::Result<Self> {
        let fd = keep_high(fd);
        let identity = identity(&fd)?;
        Ok(Self { fd, identity })
    }

    /// Adds one to the eventfd, if it is still there.
    pub fn ring(&self) {
        if self.is_ours() {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Takes all rings back.
    pub fn clear(&self) {
        if self.is_ours() {
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    /// The descriptor, to wait for.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// All eventfds share one anonymous inode: this tells them from files, sockets and pipes.
    fn is_ours(&self) -> bool {
        identity(&self.fd) == Ok(self.identity)
    }
}

fn identity(fd: impl AsFd) -> rustix::io::Result<(u64, u64)> {
    rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn a_file_under_the_same_number_stays_empty() {
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let bell = Bell::new(fd).unwrap();
        let mut file = std::fs::File::from(
            rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
        );
        // SAFETY: what a program does that closes every descriptor; the number stays open.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), bell.fd.as_raw_fd()) } >= 0);
        bell.ring();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"");
    }
}
