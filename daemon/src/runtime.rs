//! The runtime folder: its lock, which one daemon holds, and the sockets in it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeError {
    /// The folder `path` cannot be made, because of `cause`.
    #[error("cannot make {}: {cause}; name another folder with --runtime-dir", path.display())]
    Folder {
        path: PathBuf,
        cause: std::io::Error,
    },
    /// Another daemon serves the folder `path`; `pid` is the text of its lock file, which may be empty.
    #[error(
        "another rtswapd{} serves {} already; stop it, or name another folder with --runtime-dir",
        pid_text(pid), path.display()
    )]
    Taken { path: PathBuf, pid: String },
    /// The lock file `path` cannot be opened or locked, because of `cause`.
    #[error("cannot lock {}: {cause}", path.display())]
    Lock {
        path: PathBuf,
        cause: std::io::Error,
    },
    /// The socket `path` cannot be made, because of `cause`.
    #[error("cannot listen on {}: {cause}; name another folder with --runtime-dir", path.display())]
    Socket {
        path: PathBuf,
        cause: std::io::Error,
    },
}

fn pid_text(pid: &str) -> String {
    if pid.is_empty() {
        String::new()
    } else {
        format!(" (pid {pid})")
    }
}

/// The folder, locked. Dropping it removes the sockets that were made in it.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    sockets: Vec<PathBuf>,
    // Dropped last: until then no other daemon makes sockets here.
    _lock: File,
}

impl RuntimeDir {
    /// Makes the folder if it is not there, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, RuntimeError> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path);
        made.map_err(|cause| RuntimeError::Folder {
            path: path.to_owned(),
            cause,
        })?;
        let lock_path = path.join("lock");
        let failed = |cause: std::io::Error| RuntimeError::Lock {
            path: lock_path.clone(),
            cause,
        };
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(&lock_path)
            .map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // The message is useful without the pid, too.
                let _ = lock.read_to_string(&mut pid);
                return Err(RuntimeError::Taken {
                    path: path.to_owned(),
                    pid: pid.trim().to_owned(),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            sockets: Vec::new(),
            _lock: lock,
        })
    }

    /// A listening socket for everybody, in the place of one that a dead daemon left.
    pub(crate) fn listen(&mut self, name: &str, kind: SocketType) -> Result<OwnedFd, RuntimeError> {
        const BACKLOG: i32 = 256;
        let path = self.path.join(name);
        let failed = |cause: std::io::Error| RuntimeError::Socket {
            path: path.clone(),
            cause,
        };
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let make = || -> rustix::io::Result<OwnedFd> {
            let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
            bind(&socket, &SocketAddrUnix::new(&path)?)?;
            Ok(socket)
        };
        let socket = make().map_err(|error| failed(error.into()))?;
        self.sockets.push(path.clone());
        // Every user may connect: what a caller may do is decided by its credentials. The mode is set
        // before the socket listens.
        fs::set_permissions(&path, Permissions::from_mode(0o666)).map_err(failed)?;
        listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
        Ok(socket)
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // Somebody else may have removed it; then it is as it should be.
            let _ = fs::remove_file(socket);
        }
    }
}
