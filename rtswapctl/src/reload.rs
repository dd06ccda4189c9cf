//! `rtswapctl reload`: the daemon reads its files again.

use std::path::Path;

use rtswap_dbus::Manager1Proxy;

use crate::daemon::converse;
use crate::failure::Failure;

/// Returns when they are in effect; says nothing then.
pub(crate) fn reload(runtime_dir: Option<&Path>) -> Result<(), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        Ok(manager.reload().await?)
    })
}
