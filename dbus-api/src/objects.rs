//! All objects in one call, as plain structs: what the daemon publishes and its clients read.

use std::collections::HashMap;

use zbus::fdo::ObjectManagerProxy;
use zbus::{Connection, OwnedObjectPath, OwnedVariant};

use crate::{BUS_NAME, Error, GPU, ROOT_PATH, TASK};

type Properties = HashMap<String, OwnedVariant>;

/// The properties of `org.rtswap.Task1`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskProperties {
    /// The name, unique per user.
    pub name: String,
    /// `realtime` or `best-effort`.
    pub class: String,
    /// What it does now: `unclaimed`, `loading`, `idle`, `waiting`, `swapping-out`, `swapping-in`, `running`, `lost` or `gone`.
    pub phase: String,
    /// UUID of its GPU; empty while it has none.
    pub gpu: String,
    /// The user that may claim it.
    pub user_id: u32,
    /// Its process in the daemon's PID namespace; 0 while there is none.
    pub process_id: u32,
    /// T; 0 for best-effort.
    pub period_usec: u64,
    /// D; 0 for best-effort.
    pub deadline_usec: u64,
    /// C; 0 for best-effort.
    pub wcet_usec: u64,
    /// m as declared.
    pub footprint_bytes: u64,
    /// mˢ as declared.
    pub swappable_bytes: u64,
    /// x: what the plan lets leave the GPU.
    pub swap_volume_bytes: u64,
    /// On the GPU now.
    pub resident_bytes: u64,
    /// In the backing store now.
    pub swapped_bytes: u64,
    /// What it may hold now.
    pub budget_bytes: u64,
    /// Pinned for its backing store.
    pub backing_bytes: u64,
    /// Jobs that ran to completion.
    pub jobs: u64,
    /// Of them, those that ended late.
    pub deadline_misses: u64,
    /// By how much at most.
    pub max_lateness_usec: u64,
    /// Median response time of the last 4,096 jobs; a job responds from its eligible instant.
    pub response_p50_usec: u64,
    /// Their 99th percentile.
    pub response_p99_usec: u64,
    /// The longest response time of all jobs.
    pub response_max_usec: u64,
    /// Copied to the backing store so far.
    pub swap_out_bytes_total: u64,
    /// Copied back so far.
    pub swap_in_bytes_total: u64,
    /// Time spent on it, by the agent's measure.
    pub swap_out_usec_total: u64,
    /// Time spent on it, by the agent's measure.
    pub swap_in_usec_total: u64,
    /// Broken promises and senseless reports so far.
    pub violations: u64,
}

/// The properties of `org.rtswap.Gpu1`.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuProperties {
    /// `GPU-` and the UUID, as nvidia-smi prints it.
    pub uuid: String,
    /// The daemon's number of it, from 0.
    pub index: u32,
    /// mᴰ: what rtswap may hand out.
    pub capacity_bytes: u64,
    /// What its tasks hold and have reserved now.
    pub used_bytes: u64,
    /// δ.
    pub chunk_bytes: u64,
    /// The task whose job holds the GPU; `/` where none does.
    pub running_task: OwnedObjectPath,
    /// ΣU of the plan, swaps included.
    pub utilization: f64,
    /// B(all) of the plan.
    pub blocking_usec: u64,
}

impl TryFrom<Properties> for TaskProperties {
    type Error = Error;

    fn try_from(mut properties: Properties) -> Result<Self, Error> {
        let from = &mut properties;
        Ok(Self {
            name: take(from, "Name")?,
            class: take(from, "Class")?,
            phase: take(from, "Phase")?,
            gpu: take(from, "Gpu")?,
            user_id: take(from, "UserId")?,
            process_id: take(from, "ProcessId")?,
            period_usec: take(from, "PeriodUSec")?,
            deadline_usec: take(from, "DeadlineUSec")?,
            wcet_usec: take(from, "WcetUSec")?,
            footprint_bytes: take(from, "FootprintBytes")?,
            swappable_bytes: take(from, "SwappableBytes")?,
            swap_volume_bytes: take(from, "SwapVolumeBytes")?,
            resident_bytes: take(from, "ResidentBytes")?,
            swapped_bytes: take(from, "SwappedBytes")?,
            budget_bytes: take(from, "BudgetBytes")?,
            backing_bytes: take(from, "BackingBytes")?,
            jobs: take(from, "Jobs")?,
            deadline_misses: take(from, "DeadlineMisses")?,
            max_lateness_usec: take(from, "MaxLatenessUSec")?,
            response_p50_usec: take(from, "ResponseP50USec")?,
            response_p99_usec: take(from, "ResponseP99USec")?,
            response_max_usec: take(from, "ResponseMaxUSec")?,
            swap_out_bytes_total: take(from, "SwapOutBytesTotal")?,
            swap_in_bytes_total: take(from, "SwapInBytesTotal")?,
            swap_out_usec_total: take(from, "SwapOutUSecTotal")?,
            swap_in_usec_total: take(from, "SwapInUSecTotal")?,
            violations: take(from, "Violations")?,
        })
    }
}

impl TryFrom<Properties> for GpuProperties {
    type Error = Error;

    fn try_from(mut properties: Properties) -> Result<Self, Error> {
        let from = &mut properties;
        Ok(Self {
            uuid: take(from, "Uuid")?,
            index: take(from, "Index")?,
            capacity_bytes: take(from, "CapacityBytes")?,
            used_bytes: take(from, "UsedBytes")?,
            chunk_bytes: take(from, "ChunkBytes")?,
            running_task: take(from, "RunningTask")?,
            utilization: take(from, "Utilization")?,
            blocking_usec: take(from, "BlockingUSec")?,
        })
    }
}

/// One property out of the map.
fn take<T>(properties: &mut Properties, name: &str) -> Result<T, Error>
where
    T: TryFrom<OwnedVariant>,
{
    properties
        .remove(name)
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| {
            Error::Bus(zbus::Error::Failure(format!(
                "the daemon sent no usable property {name}; is it of another version?"
            )))
        })
}

/// Everything that the daemon serves now, tasks by id and GPUs by index.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The tasks that the caller may see.
    pub tasks: Vec<(OwnedObjectPath, TaskProperties)>,
    /// The GPUs.
    pub gpus: Vec<(OwnedObjectPath, GpuProperties)>,
}

/// Asks the ObjectManager once.
pub async fn list(connection: &Connection) -> Result<Objects, Error> {
    let manager = ObjectManagerProxy::builder(connection)
        .destination(BUS_NAME)
        .path(ROOT_PATH)
        .build()
        .await?;
    let mut objects = Objects {
        tasks: Vec::new(),
        gpus: Vec::new(),
    };
    for (path, mut interfaces) in manager.get_managed_objects().await? {
        if let Some(properties) = interfaces.remove(TASK) {
            objects.tasks.push((path, properties.try_into()?));
        } else if let Some(properties) = interfaces.remove(GPU) {
            objects.gpus.push((path, properties.try_into()?));
        }
    }
    objects.tasks.sort_by_key(|(path, _)| crate::task_id(path));
    objects.gpus.sort_by_key(|(_, gpu)| gpu.index);
    Ok(objects)
}
