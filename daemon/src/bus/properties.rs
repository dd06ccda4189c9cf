//! The interfaces `org.rtswap.Task1` and `org.rtswap.Gpu1`: the properties of one task or GPU of the
//! snapshot.

use rtswap_dbus::{GpuProperties, TaskProperties};
use zbus::OwnedObjectPath;

use crate::dispatch::{Handle, Snapshot};

/// One task's object.
#[derive(Clone, Debug)]
pub(super) struct Task1 {
    handle: Handle,
    id: u64,
    /// The values served between the end of the task and the removal of its object.
    gone: TaskProperties,
}

impl Task1 {
    /// The object of the registration `id`, with its `first` values.
    pub(super) fn new(handle: Handle, id: u64, first: &TaskProperties) -> Self {
        let gone = TaskProperties {
            phase: "gone".into(),
            process_id: 0,
            process_ids: Vec::new(),
            waits: String::new(),
            ..first.clone()
        };
        Self { handle, id, gone }
    }

    fn of<'a>(&'a self, snapshot: &'a Snapshot) -> &'a TaskProperties {
        snapshot.tasks.get(&self.id).unwrap_or(&self.gone)
    }
}

/// One GPU's object.
#[derive(Clone, Debug)]
pub(super) struct Gpu1 {
    handle: Handle,
    index: usize,
    first: GpuProperties,
}

impl Gpu1 {
    /// The object of the GPU with this `index`, with its `first` values. A GPU does not go.
    pub(super) fn new(handle: Handle, index: usize, first: GpuProperties) -> Self {
        Self {
            handle,
            index,
            first,
        }
    }

    fn of<'a>(&'a self, snapshot: &'a Snapshot) -> &'a GpuProperties {
        snapshot.gpus.get(self.index).unwrap_or(&self.first)
    }
}

/// An interface of properties alone: name and type of each, and what D-Bus's `EmitsChangedSignal` says of it.
macro_rules! interface {
    ($type:ident is $interface:literal: $($field:ident: $value:ty = $name:literal $signal:literal,)*) => {
        #[zbus::interface(name = $interface, introspection_docs = false)]
        impl $type {
            $(
                #[zbus(property(emits_changed_signal = $signal), name = $name)]
                fn $field(&self) -> $value {
                    self.of(&self.handle.snapshot()).$field.clone()
                }
            )*
        }
    };
}

interface! {
    Task1 is "org.rtswap.Task1":
    name: String = "Name" "const",
    class: String = "Class" "true",
    phase: String = "Phase" "true",
    gpu: String = "Gpu" "true",
    user_id: u32 = "UserId" "const",
    process_id: u32 = "ProcessId" "true",
    process_ids: Vec<u32> = "ProcessIds" "true",
    period_usec: u64 = "PeriodUSec" "true",
    deadline_usec: u64 = "DeadlineUSec" "true",
    wcet_usec: u64 = "WcetUSec" "true",
    footprint_bytes: u64 = "FootprintBytes" "true",
    swappable_bytes: u64 = "SwappableBytes" "true",
    swap_volume_bytes: u64 = "SwapVolumeBytes" "true",
    resident_bytes: u64 = "ResidentBytes" "true",
    swapped_bytes: u64 = "SwappedBytes" "true",
    budget_bytes: u64 = "BudgetBytes" "true",
    backing_bytes: u64 = "BackingBytes" "true",
    jobs: u64 = "Jobs" "false",
    deadline_misses: u64 = "DeadlineMisses" "true",
    max_lateness_usec: u64 = "MaxLatenessUSec" "true",
    response_p50_usec: u64 = "ResponseP50USec" "false",
    response_p99_usec: u64 = "ResponseP99USec" "false",
    response_max_usec: u64 = "ResponseMaxUSec" "false",
    swap_out_bytes_total: u64 = "SwapOutBytesTotal" "false",
    swap_in_bytes_total: u64 = "SwapInBytesTotal" "false",
    swap_out_usec_total: u64 = "SwapOutUSecTotal" "false",
    swap_in_usec_total: u64 = "SwapInUSecTotal" "false",
    violations: u64 = "Violations" "true",
    waits: String = "Waits" "true",
}

interface! {
    Gpu1 is "org.rtswap.Gpu1":
    uuid: String = "Uuid" "const",
    index: u32 = "Index" "const",
    name: String = "Name" "true",
    has_nvml: bool = "HasNvml" "true",
    has_utilization: bool = "HasUtilization" "true",
    memory_bytes: u64 = "MemoryBytes" "true",
    device_used_bytes: u64 = "DeviceUsedBytes" "true",
    unmanaged_bytes: u64 = "UnmanagedBytes" "true",
    device_utilization_percent: u32 = "DeviceUtilizationPercent" "false",
    capacity_bytes: u64 = "CapacityBytes" "true",
    used_bytes: u64 = "UsedBytes" "true",
    chunk_bytes: u64 = "ChunkBytes" "const",
    running_task: OwnedObjectPath = "RunningTask" "false",
    utilization: f64 = "Utilization" "true",
    notes: Vec<String> = "Notes" "true",
    blocking_usec: u64 = "BlockingUSec" "true",
}
