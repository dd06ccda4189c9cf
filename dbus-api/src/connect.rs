//! The control socket: the daemon's D-Bus objects without a bus.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zbus::Connection;

/// Where the daemon's sockets are unless it was told otherwise.
pub const DEFAULT_RUNTIME_DIR: &str = "/run/rtswap";

/// The environment variable that names another folder.
pub const RUNTIME_DIR_VARIABLE: &str = "RTSWAP_RUNTIME_DIR";

/// The control socket's name in the runtime folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// How long a call may take. The daemon answers each from memory.
const CALL_BOUND: Duration = Duration::from_secs(30);

/// Why the daemon cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error("no rtswapd listens on {}: {cause}; start it, or name its folder with --runtime-dir or {RUNTIME_DIR_VARIABLE}", path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Who listens does not speak D-Bus with us.
    #[error("cannot speak D-Bus on {}: {cause}", path.display())]
    Handshake {
        /// The socket.
        path: PathBuf,
        /// Why.
        cause: zbus::Error,
    },
}

/// The daemon's folder: `$RTSWAP_RUNTIME_DIR` or [`DEFAULT_RUNTIME_DIR`].
pub fn runtime_dir() -> PathBuf {
    std::env::var_os(RUNTIME_DIR_VARIABLE)
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_RUNTIME_DIR), PathBuf::from)
}

/// Connects to the daemon whose runtime folder is `runtime_dir`, peer to peer. Needs a Tokio
/// runtime.
pub async fn connect(runtime_dir: &Path) -> Result<Connection, ConnectError> {
    let path = runtime_dir.join(CONTROL_SOCKET);
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(cause) => return Err(ConnectError::NoDaemon { path, cause }),
    };
    zbus::connection::Builder::unix_stream(stream)
        .p2p()
        .method_timeout(CALL_BOUND)
        .build()
        .await
        .map_err(|cause| ConnectError::Handshake { path, cause })
}
