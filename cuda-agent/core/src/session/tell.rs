//! Ringing an eventfd that lives in a stranger's process.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Descriptor, Mark};

/// An eventfd.
#[derive(Debug)]
pub struct Bell(Descriptor);

impl Bell {
    /// Takes the eventfd over.
    pub fn new(fd: OwnedFd) -> rustix::io::Result<Self> {
        Descriptor::new(fd).map(Self)
    }

    /// Adds one to the eventfd, if it is still there.
    pub fn ring(&self) {
        if let Some(fd) = self.0.get() {
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    /// Takes all rings back.
    pub fn clear(&self) {
        if let Some(fd) = self.0.get() {
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
    }

    /// The descriptor, to wait for, if it is still there.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.get()
    }

    /// For the child of a fork.
    pub fn mark(&self) -> Mark {
        self.0.mark()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_file_under_the_same_number_stays_empty() {
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let bell = Bell::new(fd).unwrap();
        let number = bell.fd().expect("still there").as_raw_fd();
        let mut file = std::fs::File::from(
            rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
        );
        // SAFETY: what a program does that closes every descriptor; the number stays open.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), number) } >= 0);
        bell.ring();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"");
    }
}
