//! One conversation with the daemon.

use std::path::Path;

use rtswap_dbus::objects::{self, Objects, Properties};
use rtswap_dbus::{GpuProperties, Manager1Proxy};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use zbus::{OwnedObjectPath, OwnedVariant};

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

/// What realtime tasks leave to best-effort ones of the capacity of the GPU with this UUID, in bytes.
pub(crate) fn best_effort_reserve(runtime_dir: Option<&Path>, uuid: &str) -> Result<u64, Failure> {
    #[derive(Deserialize)]
    struct Plan {
        gpus: Vec<GpuPlan>,
    }
    #[derive(Deserialize)]
    struct GpuPlan {
        uuid: String,
        best_effort_reserve_bytes: u64,
    }
    let text = converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        Ok(manager.plan().await?)
    })?;
    let plan: Plan = serde_json::from_str(&text).map_err(Failure::NotPlan)?;
    let gpu = plan.gpus.into_iter().find(|gpu| gpu.uuid == uuid);
    Ok(gpu.map_or(0, |gpu| gpu.best_effort_reserve_bytes))
}

/// The processes of which some witness tells, each as `ListProcesses` describes it.
pub(crate) type Processes = Vec<Properties>;

/// How the probes do, as `Manager1`'s properties describe it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Probes {
    pub(crate) state: String,
    pub(crate) libraries: u32,
    pub(crate) lost_records: u64,
    pub(crate) lost_calls: u64,
}

/// All that `status` shows.
pub(crate) struct Everything {
    pub(crate) objects: Objects,
    pub(crate) processes: Processes,
    pub(crate) probes: Probes,
    /// GPUs that are no place for tasks, and why.
    pub(crate) left_alone: Vec<String>,
}

/// As [`objects`], with the processes and the probes.
pub(crate) fn everything(runtime_dir: Option<&Path>) -> Result<Everything, Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        let probes = async {
            zbus::Result::Ok(Probes {
                state: manager.probes().await?,
                libraries: manager.probed_libraries().await?,
                lost_records: manager.probe_records_lost().await?,
                lost_calls: manager.probe_calls_lost().await?,
            })
        };
        let left_alone = manager.left_alone().await;
        Ok(Everything {
            objects: objects::list(&connection).await?,
            processes: manager.list_processes().await?,
            probes: probes.await.map_err(rtswap_dbus::Error::from)?,
            left_alone: left_alone.map_err(rtswap_dbus::Error::from)?,
        })
    })
}

/// A field that the daemon may leave out.
pub(crate) fn take<T: TryFrom<OwnedVariant>>(fields: &mut Properties, name: &str) -> Option<T> {
    T::try_from(fields.remove(name)?).ok()
}

/// The GPU at this path.
pub(crate) fn gpu_at<'a>(
    objects: &'a Objects,
    path: &OwnedObjectPath,
) -> Option<&'a GpuProperties> {
    let gpu = objects.gpus.iter().find(|(at, _)| at == path);
    gpu.map(|(_, gpu)| gpu)
}
