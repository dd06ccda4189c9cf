//! Notifications to the service manager, where there is one.

use sd_notify::NotifyState;

use crate::dispatch::{Handle, Request};

/// Sends `state` to the service manager; a failure is logged.
pub(crate) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}

/// Feeds the service manager's watchdog while the dispatch thread answers. If that thread hangs, the
/// service manager ends the daemon, and the next one takes over.
pub(crate) async fn keep_alive(handle: Handle) {
    let Some(bound) = sd_notify::watchdog_enabled() else {
        return;
    };
    while handle.call(|reply| Request::Ping { reply }).await.is_ok() {
        tell(NotifyState::Watchdog);
        tokio::time::sleep(bound / 3).await;
    }
}
