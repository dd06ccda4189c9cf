//! The control socket: each connection is a D-Bus of its own, without a bus.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use zbus::Guid;
use zbus::connection::Builder;

use super::Shared;
use super::attend::Attended;
use super::auth::Door;
use super::demand::demand;
use super::transport::Transport;
use crate::log;
use crate::sys::heap;

/// How long a client may take to authenticate.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// From the end of a connection to giving back what it took.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves `listener` until it is dropped.
pub async fn serve(listener: UnixListener, shared: Shared) {
    let guid = Guid::generate();
    let ended = Arc::new(Notify::new());
    tokio::spawn(give_back(Arc::clone(&ended)));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if log::may_say(log::ANYBODY, "control") {
                    tracing::error!(%error, "cannot take a connection on the control socket");
                }
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A user with too many connections is hung up on: queued here, its next one would block all
        // others.
        let uid = stream.peer_cred().map(|peer| peer.uid());
        let Some(slot) = uid.ok().and_then(|uid| shared.limits.connect(uid)) else {
            continue;
        };
        let (guid, shared, ended) = (guid.clone(), shared.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, guid, &shared).await {
                tracing::debug!(%error, "a connection on the control socket ended");
            }
            drop(slot);
            ended.notify_one();
        });
    }
}

/// Gives back what connections that have ended took: long answers that were never read leave gaps of many MiB.
async fn give_back(ended: Arc<Notify>) {
    loop {
        ended.notified().await;
        // However many end.
        sleep(PAUSE).await;
        heap::trim();
    }
}

async fn serve_one(stream: UnixStream, guid: Guid<'static>, shared: &Shared) -> zbus::Result<()> {
    let (asking, asked) = demand();
    let transport = Transport::new(stream, asking);
    let builder = Builder::socket(transport).server(guid).p2p();
    let attended = Attended::build(builder, Door::Socket, shared, Some(asked));
    let silent = || zbus::Error::Handshake("the client did not authenticate in time".into());
    let attended = timeout(HANDSHAKE, attended).await.map_err(|_| silent())??;
    let connection = attended.connection.clone();
    attended.run().await?;
    connection.close().await
}
