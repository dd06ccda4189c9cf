//! The user that a process counts for, through user namespaces: the other users' numbers that a namespace maps
//! (subordinate ids) count for its maker. Numbers: include/uapi/linux/nsfs.h.

use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use super::peer;

const NS_GET_PARENT: libc::c_ulong = 0xb702;
const NS_GET_OWNER_UID: libc::c_ulong = 0xb704;

/// More namespaces than the kernel nests.
const DEEPEST: usize = 40;

/// The user that `pid` counts for: the maker of the outermost user namespace below ours that it is in, unless
/// that is root, else its own real user. None once it is gone.
pub fn accountable_user(pid: u32) -> Option<u32> {
    let own = peer::owner(pid)?;
    let maker = maker_of_namespace(pid).filter(|maker| *maker != 0);
    Some(maker.unwrap_or(own))
}

/// None in our own namespace, and where the process may not be looked into.
fn maker_of_namespace(pid: u32) -> Option<u32> {
    let ours = File::open("/proc/self/ns/user").ok()?;
    let ours = ours.metadata().ok()?.ino();
    let mut inner: File = File::open(format!("/proc/{pid}/ns/user")).ok()?;
    if inner.metadata().ok()?.ino() == ours {
        return None;
    }
    for _ in 0..DEEPEST {
        let outer = parent(&inner)?;
        if outer.metadata().ok()?.ino() == ours {
            return maker(&inner);
        }
        inner = outer;
    }
    None
}

fn parent(namespace: &File) -> Option<File> {
    // SAFETY: this request takes no argument.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_PARENT) };
    if fd < 0 {
        return None;
    }
    // SAFETY: on success the kernel made this descriptor for us alone.
    Some(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn maker(namespace: &File) -> Option<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: the request fills a uid_t, which the pointer is to.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID, &raw mut uid) };
    (result == 0).then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_counts_for_its_own_user() {
        let own = rustix::process::getuid().as_raw();
        assert_eq!(accountable_user(std::process::id()), Some(own));
        assert_eq!(accountable_user(u32::MAX), None);
    }

    #[test]
    fn a_process_in_a_namespace_counts_for_its_maker() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=4711", "--regid=4711", "--clear-groups", "unshare"]);
        command.args(["--user", "--map-root-user", "unshare", "--user", "sh", "-c"]);
        command.args(["echo made; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setpriv is there");
        let mut line = [0; 5];
        let mut made = child.stdout.take().unwrap();
        if std::io::Read::read_exact(&mut made, &mut line).is_err() {
            // Not root, or without user namespaces.
            let _ = child.wait();
            return;
        }
        assert_eq!(accountable_user(child.id()), Some(4711));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
