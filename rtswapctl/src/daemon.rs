//! One conversation with the daemon.

use std::path::Path;

use rtswap_dbus::Manager1Proxy;
use rtswap_dbus::objects::{self, Objects, Properties};
use tokio::runtime::Builder;

use crate::failure::Failure;

/// Runs `future` to its end on this thread.
pub(crate) fn converse<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

/// Everything that the daemon serves now.
pub(crate) fn objects(runtime_dir: Option<&Path>) -> Result<Objects, Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        Ok(objects::list(&connection).await?)
    })
}

/// The processes of which some witness tells, each as `ListProcesses` describes it.
pub(crate) type Processes = Vec<Properties>;

/// As [`objects`], with the processes.
pub(crate) fn objects_and_processes(
    runtime_dir: Option<&Path>,
) -> Result<(Objects, Processes), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        let objects = objects::list(&connection).await?;
        Ok((objects, manager.list_processes().await?))
    })
}
