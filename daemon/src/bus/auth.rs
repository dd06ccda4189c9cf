//! Who calls, on the control socket: its peer's credentials.

use rtswap_dbus::Error;
use zbus::Connection;

use crate::dispatch::Caller;

/// The user at the other end. Root and the daemon's own user may do all.
pub(super) async fn caller(connection: &Connection) -> Result<Caller, Error> {
    let credentials = connection.peer_creds().await;
    let uid = credentials.ok().and_then(|peer| peer.unix_user_id());
    let Some(uid) = uid else {
        return Err(Error::AccessDenied(
            "the kernel does not tell who calls; connect by the control socket".into(),
        ));
    };
    let own = rustix::process::geteuid().as_raw();
    Ok(Caller {
        uid,
        privileged: uid == 0 || uid == own,
    })
}
