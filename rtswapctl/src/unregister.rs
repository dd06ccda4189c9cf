//! `rtswapctl unregister`: the registration of a task ends.

use std::path::Path;

use rtswap_dbus::Manager1Proxy;
use rtswap_dbus::objects;
use rtswapctl::cli::UnregisterOptions;

use crate::daemon::converse;
use crate::failure::Failure;
use crate::lookup::the_only;

/// Returns when it has ended; says nothing then.
pub(crate) fn unregister(
    runtime_dir: Option<&Path>,
    options: &UnregisterOptions,
) -> Result<(), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let objects = objects::list(&connection).await?;
        let gpu = options.gpu.as_deref();
        let (task, _) = the_only(&objects, &options.name, gpu, "Unregister")?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        Ok(manager.unregister(task).await?)
    })
}
