//! Ways to the daemon: its name on the system bus, and the control socket, where it serves the
//! same objects without a bus.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zbus::fdo::DBusProxy;
use zbus::{Connection, connection};

use crate::BUS_NAME;

/// Where the daemon's sockets are unless it was told otherwise.
pub const DEFAULT_RUNTIME_DIR: &str = "/run/rtswap";

/// The environment variable that names another folder.
pub const RUNTIME_DIR_VARIABLE: &str = "RTSWAP_RUNTIME_DIR";

/// The control socket's name in the runtime folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// How long a call may take. The daemon answers each from memory.
const CALL_BOUND: Duration = Duration::from_secs(30);

/// The same on a bus, where somebody may have to type a password first.
const ASKING_BOUND: Duration = Duration::from_mins(5);

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

/// Connects to the daemon of `runtime_dir` if one is named. Else by the system bus where the daemon
/// has its name there, because polkit can be asked only on it; else by the control socket in
/// [`DEFAULT_RUNTIME_DIR`]. Needs a Tokio runtime.
pub async fn find(runtime_dir: Option<&Path>) -> Result<Connection, ConnectError> {
    if let Some(runtime_dir) = runtime_dir {
        return connect(runtime_dir).await;
    }
    match on_system_bus().await {
        Ok(Some(connection)) => Ok(connection),
        // No bus or no daemon on it: the socket says so if it is not there either.
        Ok(None) | Err(_) => connect(Path::new(DEFAULT_RUNTIME_DIR)).await,
    }
}

/// The system bus, if the daemon has its name there.
async fn on_system_bus() -> zbus::Result<Option<Connection>> {
    let builder = connection::Builder::system().method_timeout(ASKING_BOUND);
    let connection = builder.build().await?;
    let bus = DBusProxy::new(&connection).await?;
    let there = bus.name_has_owner(BUS_NAME.try_into()?).await?;
    Ok(there.then_some(connection))
}

/// Connects to the daemon whose runtime folder is `runtime_dir`, peer to peer. Needs a Tokio
/// runtime.
pub async fn connect(runtime_dir: &Path) -> Result<Connection, ConnectError> {
    let path = runtime_dir.join(CONTROL_SOCKET);
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(cause) => return Err(ConnectError::NoDaemon { path, cause }),
    };
    connection::Builder::unix_stream(stream)
        .p2p()
        .method_timeout(CALL_BOUND)
        .build()
        .await
        .map_err(|cause| ConnectError::Handshake { path, cause })
}
