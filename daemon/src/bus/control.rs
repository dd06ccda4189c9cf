//! The control socket: each connection is a D-Bus of its own, without a bus.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use zbus::Guid;
use zbus::connection::Builder;
use zbus::fdo::ObjectManager;

use super::limits::Limits;
use super::manager::Manager1;
use super::publish::Published;
use crate::dispatch::Handle;

/// How long a client may take to authenticate.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves `listener` until it is dropped.
pub async fn serve(listener: UnixListener, handle: Handle) {
    let guid = Guid::generate();
    let limits = Limits::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::error!(%error, "cannot take a connection on the control socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Who has too many is hung up on: waiting in line it would keep the others out.
        let uid = stream.peer_cred().map(|peer| peer.uid());
        let Some(slot) = uid.ok().and_then(|uid| limits.connect(uid)) else {
            continue;
        };
        let (guid, handle, limits) = (guid.clone(), handle.clone(), limits.clone());
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, guid, handle, limits).await {
                tracing::debug!(%error, "a connection on the control socket ended");
            }
            drop(slot);
        });
    }
}

async fn serve_one(
    stream: UnixStream,
    guid: Guid<'static>,
    handle: Handle,
    limits: Limits,
) -> zbus::Result<()> {
    let mut changes = handle.watch();
    let builder = Builder::unix_stream(stream.into_std()?).server(guid).p2p();
    let (published, builder) = Published::new(handle.clone(), builder);
    let published = Arc::new(published);
    let connection = builder
        .serve_at(rtswap_dbus::ROOT_PATH, ObjectManager)
        .serve_at(
            rtswap_dbus::ROOT_PATH,
            Manager1::new(handle, Arc::clone(&published), limits),
        )
        .build();
    let silent = || zbus::Error::Handshake("the client did not authenticate in time".into());
    let connection = timeout(HANDSHAKE, connection)
        .await
        .map_err(|_| silent())??;
    published.update(&connection).await?;
    loop {
        tokio::select! {
            () = connection.closed() => return Ok(()),
            changed = changes.changed() => {
                if changed.is_err() {
                    return connection.close().await;
                }
                published.update(&connection).await?;
            }
        }
    }
}
