//! All objects in one call, as plain structs: what the daemon publishes and its clients read.

use std::collections::{BTreeMap, HashMap};

use zbus::fdo::ObjectManagerProxy;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Type, Variant};

use crate::{BUS_NAME, Error, GPU, ROOT_PATH, TASK};

/// The properties of one interface of one object, by name.
pub type Properties = HashMap<String, OwnedVariant>;

/// The value of a limit in bytes that nobody sets: 0 is a limit.
pub const NO_LIMIT: u64 = u64::MAX;

/// The limit that a property says, in bytes; none for [`NO_LIMIT`].
pub fn limit(bytes: u64) -> Option<u64> {
    (bytes != NO_LIMIT).then_some(bytes)
}

/// One property as it is introspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name on D-Bus.
    pub name: &'static str,
    /// The type as a D-Bus signature.
    pub signature: String,
    /// What `EmitsChangedSignal` says of it.
    pub emits: &'static str,
    /// Whether users other than the owner, root and those that may manage others' tasks see it.
    pub public: bool,
}

/// An interface's properties, each with its name on D-Bus, how it is told of (fixed, announced when it
/// changes, or silent because it changes with each job), and who sees it (all, or the owner, root and
/// those that may manage others' tasks).
macro_rules! properties {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty = $wire:literal $told:ident $seen:ident,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// All properties, by their names on D-Bus. A hash map would take twice the memory.
            pub fn to_wire(&self) -> BTreeMap<&'static str, Variant<'static>> {
                BTreeMap::from([$(($wire, Variant::from(self.$field.clone())),)*])
            }

            /// What is different from `before` and announced.
            #[allow(clippy::float_cmp, reason = "told again for a rounding is no harm")]
            pub fn changes(&self, before: &Self) -> HashMap<&'static str, Variant<'static>> {
                let mut changes = HashMap::new();
                $(
                    if properties!(@announced $told) && self.$field != before.$field {
                        changes.insert($wire, Variant::from(self.$field.clone()));
                    }
                )*
                changes
            }

            /// The properties in the order of their declaration.
            pub fn list() -> Vec<Property> {
                vec![$(Property {
                    name: $wire,
                    signature: <$type as Type>::SIGNATURE.to_string(),
                    emits: properties!(@emits $told),
                    public: properties!(@public $seen),
                },)*]
            }

            /// Whether there is a property `name`.
            pub fn is_property(name: &str) -> bool {
                matches!(name, $($wire)|*)
            }

            /// Whether everybody sees the property `name`.
            pub fn is_public(name: &str) -> bool {
                match name {
                    $($wire => properties!(@public $seen),)*
                    _ => false,
                }
            }
        }

        impl TryFrom<Properties> for $name {
            type Error = Error;

            fn try_from(mut properties: Properties) -> Result<Self, Error> {
                Ok(Self { $($field: take(&mut properties, $wire)?,)* })
            }
        }
    };
    (@announced announced) => { true };
    (@announced fixed) => { false };
    (@announced silent) => { false };
    (@emits announced) => { "true" };
    (@emits fixed) => { "const" };
    (@emits silent) => { "false" };
    (@public all) => { true };
    (@public owner) => { false };
}

properties! {
    /// The properties of `org.rtswap.Task1`.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct TaskProperties {
        /// The name, unique per user.
        name: String = "Name" fixed owner,
        /// `realtime` or `best-effort`.
        class: String = "Class" announced all,
        /// What it does now: `unclaimed`, `loading`, `idle`, `waiting`, `swapping-out`, `swapping-in`, `running`,
        /// `parked`, `lost` or `gone`.
        phase: String = "Phase" announced owner,
        /// Whether it stays off the GPU, with its jobs waiting, until it is resumed.
        parked: bool = "Parked" announced owner,
        /// Its GPU; `/` while it has none.
        gpu: OwnedObjectPath = "Gpu" announced all,
        /// The user that may claim it.
        user_id: u32 = "UserId" fixed all,
        /// Its process in the daemon's PID namespace, of several the oldest; 0 while there is none.
        process_id: u32 = "ProcessId" announced owner,
        /// All its processes, the oldest first.
        process_ids: Vec<u32> = "ProcessIds" announced owner,
        /// T as declared; 0 where none was.
        period_usec: u64 = "PeriodUSec" announced owner,
        /// D as declared; 0 where none was.
        deadline_usec: u64 = "DeadlineUSec" announced owner,
        /// C as declared; 0 where none was.
        wcet_usec: u64 = "WcetUSec" announced owner,
        /// m as declared.
        footprint_bytes: u64 = "FootprintBytes" announced owner,
        /// mˢ as declared.
        swappable_bytes: u64 = "SwappableBytes" announced owner,
        /// Its weight among best-effort tasks, as declared: 100 where nothing was.
        weight: u32 = "Weight" announced owner,
        /// How long it keeps its memory on the GPU without a job while it is treated as best-effort, as declared or by the
        /// policy; 0 where it does until others need it.
        idle_after_usec: u64 = "IdleAfterUSec" announced owner,
        /// The most bytes that the policy lets it have on each GPU, swapped out or not: the smaller cap of its own and of
        /// all tasks of its user together, whatever the others have of that. [`NO_LIMIT`] where no rule caps them.
        gpu_memory_limit_bytes: u64 = "GpuMemoryLimitBytes" announced owner,
        /// The bytes of these that may need pinned memory of the host, likewise.
        pinned_memory_limit_bytes: u64 = "PinnedMemoryLimitBytes" announced owner,
        /// What follows from its violations by the policy: `warn`, `demote` or `kill`.
        on_violation: String = "OnViolation" announced owner,
        /// Whether it ends with the lease of `RegisterWithLease`. False once that has ended or `Unregister` was called, while
        /// a process of it goes on.
        leased: bool = "Leased" announced owner,
        /// x: what the plan lets leave the GPU.
        swap_volume_bytes: u64 = "SwapVolumeBytes" announced owner,
        /// On the GPU now.
        resident_bytes: u64 = "ResidentBytes" announced owner,
        /// In the backing store now.
        swapped_bytes: u64 = "SwappedBytes" announced owner,
        /// What it may hold now.
        budget_bytes: u64 = "BudgetBytes" announced owner,
        /// Pinned for its backing store.
        backing_bytes: u64 = "BackingBytes" announced owner,
        /// Jobs that ran to completion.
        jobs: u64 = "Jobs" silent owner,
        /// Of them, those that ended late.
        deadline_misses: u64 = "DeadlineMisses" announced owner,
        /// By how much at most.
        max_lateness_usec: u64 = "MaxLatenessUSec" announced owner,
        /// Median response time of the last 4,096 jobs; a job responds from its eligible instant.
        response_p50_usec: u64 = "ResponseP50USec" silent owner,
        /// Their 99th percentile.
        response_p99_usec: u64 = "ResponseP99USec" silent owner,
        /// The longest response time of all jobs.
        response_max_usec: u64 = "ResponseMaxUSec" silent owner,
        /// Copied to the backing store so far.
        swap_out_bytes_total: u64 = "SwapOutBytesTotal" silent owner,
        /// Copied back so far.
        swap_in_bytes_total: u64 = "SwapInBytesTotal" silent owner,
        /// Time spent on it, each operation from its request to its acknowledgement.
        swap_out_usec_total: u64 = "SwapOutUSecTotal" silent owner,
        /// Time spent on it, each operation from its request to its acknowledgement.
        swap_in_usec_total: u64 = "SwapInUSecTotal" silent owner,
        /// The part of the last one to two minutes in which it had the GPU, in ppm; 0 while it is not treated as
        /// best-effort, like the two that follow.
        gpu_share_ppm: u32 = "GpuSharePpm" silent owner,
        /// The part of that time in which the GPU stood still until its memory was there, in ppm.
        swap_share_ppm: u32 = "SwapSharePpm" silent owner,
        /// The longest that one of its jobs has waited for its turn in that time.
        longest_wait_usec: u64 = "LongestWaitUSec" silent owner,
        /// Broken promises and senseless reports so far.
        violations: u64 = "Violations" announced owner,
        /// Why its open job or its request for memory cannot be served at present, in words; empty
        /// while nothing but the jobs before it is in its way.
        waits: String = "Waits" announced owner,
        /// When the counts of jobs, misses, swaps and violations began, in µs since 1970.
        counting_since_usec: u64 = "CountingSinceUSec" fixed owner,
        /// The last job that ended late: its number, by how much, and where its time went.
        last_deadline_miss: String = "LastDeadlineMiss" announced owner,
        /// The kind of the last violation, and its numbers.
        last_violation: String = "LastViolation" announced owner,
    }
}

properties! {
    /// The properties of `org.rtswap.Gpu1`.
    #[derive(Clone, Debug, PartialEq, Default)]
    pub struct GpuProperties {
        /// `GPU-` and the UUID, or `MIG-` and the instance's, as nvidia-smi prints it.
        uuid: String = "Uuid" fixed all,
        /// The daemon's number of it, from 0.
        index: u32 = "Index" fixed all,
        /// As the driver has it; empty where there is no NVML.
        name: String = "Name" announced all,
        /// Whether NVML speaks for it.
        has_nvml: bool = "HasNvml" announced all,
        /// All its memory.
        memory_bytes: u64 = "MemoryBytes" announced all,
        /// What processes hold of it, with an agent or without; by the agents where there is no NVML.
        device_used_bytes: u64 = "DeviceUsedBytes" announced all,
        /// The part of that which no task holds: of processes without an agent, and what agents do not count.
        unmanaged_bytes: u64 = "UnmanagedBytes" announced all,
        /// Whether NVML tells how busy it is; of MIG instances it does not.
        has_utilization: bool = "HasUtilization" announced all,
        /// Percent of NVML's last sample period in which kernels ran; 0 where it does not tell.
        device_utilization_percent: u32 = "DeviceUtilizationPercent" silent all,
        /// mᴰ: what rtswap may hand out.
        capacity_bytes: u64 = "CapacityBytes" announced all,
        /// What its tasks hold and have reserved now.
        used_bytes: u64 = "UsedBytes" announced all,
        /// δ.
        chunk_bytes: u64 = "ChunkBytes" announced all,
        /// What the costs of swapping rest on, and with them each promise: `configured`, `calibrated` or `assumed`.
        swap_cost_source: String = "SwapCostSource" announced all,
        /// When the GPU was calibrated, in µs since 1970; 0 where no calibration counts.
        calibrated_usec: u64 = "CalibratedUSec" announced all,
        /// ρ: the rate of a copy engine while the other one copies too over its rate alone, in ppm.
        duplex_ppm: u32 = "DuplexPpm" announced all,
        /// The time of one chunk from the GPU, by these costs, as admission charges it.
        chunk_out_usec: u64 = "ChunkOutUSec" announced all,
        /// The time of one chunk to the GPU, by these costs, as admission charges it.
        chunk_in_usec: u64 = "ChunkInUSec" announced all,
        /// What each operation from the GPU takes beside its chunks.
        swap_out_base_usec: u64 = "SwapOutBaseUSec" announced all,
        /// What each operation to the GPU takes beside its chunks.
        swap_in_base_usec: u64 = "SwapInBaseUSec" announced all,
        /// The task whose job holds the GPU; `/` where none does, `/org/rtswap/task` where it is one that the
        /// caller may not see.
        running_task: OwnedObjectPath = "RunningTask" silent all,
        /// ΣU of the plan, swaps included.
        utilization: f64 = "Utilization" announced all,
        /// B(all) of the plan.
        blocking_usec: u64 = "BlockingUSec" announced all,
        /// The bound on the wait of a best-effort job, the time of realtime jobs not counted; 0 for no bound.
        longest_wait_usec: u64 = "LongestWaitUSec" silent all,
        /// What limits rtswap there, in words: a multi-process server, a vGPU, shared memory, swaps that depart
        /// from their costs.
        notes: Vec<String> = "Notes" announced all,
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

/// What everybody sees of a task.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OtherTask {
    /// `realtime` or `best-effort`.
    pub class: String,
    /// Its GPU; `/` while it has none.
    pub gpu: OwnedObjectPath,
    /// The user that it belongs to.
    pub user_id: u32,
}

impl TryFrom<Properties> for OtherTask {
    type Error = Error;

    fn try_from(mut properties: Properties) -> Result<Self, Error> {
        Ok(Self {
            class: take(&mut properties, "Class")?,
            gpu: take(&mut properties, "Gpu")?,
            user_id: take(&mut properties, "UserId")?,
        })
    }
}

/// Everything that the daemon serves now, tasks by id and GPUs by index.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The tasks that the caller may see: its own, or all.
    pub tasks: Vec<(OwnedObjectPath, TaskProperties)>,
    /// The other tasks.
    pub others: Vec<(OwnedObjectPath, OtherTask)>,
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
    let mut objects = Objects::default();
    for (path, mut interfaces) in manager.get_managed_objects().await? {
        if let Some(properties) = interfaces.remove(TASK) {
            if properties.contains_key("Name") {
                objects.tasks.push((path, properties.try_into()?));
            } else {
                objects.others.push((path, properties.try_into()?));
            }
        } else if let Some(properties) = interfaces.remove(GPU) {
            objects.gpus.push((path, properties.try_into()?));
        }
    }
    objects.tasks.sort_by_key(|(path, _)| crate::task_id(path));
    objects.others.sort_by_key(|(path, _)| crate::task_id(path));
    objects.gpus.sort_by_key(|(_, gpu)| gpu.index);
    Ok(objects)
}
