//! The interface `org.rtswap.Gpu1`: one GPU of the snapshot.

use rtswap_dbus::GpuProperties;
use zbus::fdo;

use crate::dispatch::Handle;

/// One GPU's object.
#[derive(Clone, Debug)]
pub(super) struct Gpu1 {
    handle: Handle,
    index: usize,
}

impl Gpu1 {
    /// The object of the GPU with this index in the snapshot.
    pub(super) fn new(handle: Handle, index: usize) -> Self {
        Self { handle, index }
    }

    fn get<T>(&self, of: impl Fn(&GpuProperties) -> T) -> fdo::Result<T> {
        let snapshot = self.handle.snapshot();
        let gpu = snapshot.gpus.get(self.index);
        gpu.map(of)
            .ok_or_else(|| fdo::Error::UnknownObject(format!("no GPU {}", self.index)))
    }
}

#[zbus::interface(name = "org.rtswap.Gpu1", introspection_docs = false)]
impl Gpu1 {
    #[zbus(property(emits_changed_signal = "const"), name = "Uuid")]
    fn uuid(&self) -> fdo::Result<String> {
        self.get(|gpu| gpu.uuid.clone())
    }

    #[zbus(property(emits_changed_signal = "const"), name = "Index")]
    fn index(&self) -> fdo::Result<u32> {
        self.get(|gpu| gpu.index)
    }

    #[zbus(property, name = "Name")]
    fn name(&self) -> fdo::Result<String> {
        self.get(|gpu| gpu.name.clone())
    }

    #[zbus(property, name = "HasNvml")]
    fn has_nvml(&self) -> fdo::Result<bool> {
        self.get(|gpu| gpu.has_nvml)
    }

    #[zbus(property, name = "HasUtilization")]
    fn has_utilization(&self) -> fdo::Result<bool> {
        self.get(|gpu| gpu.has_utilization)
    }

    #[zbus(property, name = "MemoryBytes")]
    fn memory_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.memory_bytes)
    }

    #[zbus(property, name = "DeviceUsedBytes")]
    fn device_used_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.device_used_bytes)
    }

    #[zbus(property, name = "UnmanagedBytes")]
    fn unmanaged_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.unmanaged_bytes)
    }

    #[zbus(
        property(emits_changed_signal = "false"),
        name = "DeviceUtilizationPercent"
    )]
    fn device_utilization_percent(&self) -> fdo::Result<u32> {
        self.get(|gpu| gpu.device_utilization_percent)
    }

    #[zbus(property, name = "CapacityBytes")]
    fn capacity_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.capacity_bytes)
    }

    #[zbus(property, name = "UsedBytes")]
    fn used_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.used_bytes)
    }

    #[zbus(property(emits_changed_signal = "const"), name = "ChunkBytes")]
    fn chunk_bytes(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.chunk_bytes)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "RunningTask")]
    fn running_task(&self) -> fdo::Result<zbus::OwnedObjectPath> {
        self.get(|gpu| gpu.running_task.clone())
    }

    #[zbus(property, name = "Utilization")]
    fn utilization(&self) -> fdo::Result<f64> {
        self.get(|gpu| gpu.utilization)
    }

    #[zbus(property, name = "Notes")]
    fn notes(&self) -> fdo::Result<Vec<String>> {
        self.get(|gpu| gpu.notes.clone())
    }

    #[zbus(property, name = "BlockingUSec")]
    fn blocking_usec(&self) -> fdo::Result<u64> {
        self.get(|gpu| gpu.blocking_usec)
    }
}
