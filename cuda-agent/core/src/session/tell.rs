//! Ringing an eventfd that lives in a stranger's process.

use std::os::fd::{AsRawFd, OwnedFd};

/// Where the agent's descriptors lie: above those that a program meets by counting up.
const HIGH: i32 = 500;

/// Moves a descriptor out of the program's way, where the limit allows.
pub fn keep_high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, HIGH).unwrap_or(fd)
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

    /// The descriptor's number.
    pub fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
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

fn identity(fd: &OwnedFd) -> rustix::io::Result<(u64, u64)> {
    rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::FromRawFd;

    use super::*;

    #[test]
    fn a_file_under_the_same_number_stays_empty() {
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let bell = Bell::new(fd).unwrap();
        let mut file = std::fs::File::from(
            rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
        );
        // SAFETY: what a program does that closes every descriptor; the number stays open.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), bell.raw()) } >= 0);
        bell.ring();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"");
        // SAFETY: a duplicate of the number, so that both owners close something of their own.
        drop(unsafe { OwnedFd::from_raw_fd(libc::dup(bell.raw())) });
    }
}
