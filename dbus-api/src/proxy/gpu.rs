//! `org.rtswap.Gpu1`.

use zbus::OwnedObjectPath;

use crate::Error;

/// One GPU.
#[zbus::proxy(interface = "org.rtswap.Gpu1", default_service = "org.rtswap")]
pub trait Gpu1 {
    /// `GPU-` and the UUID, or `MIG-` and the instance's, as nvidia-smi prints it.
    #[zbus(property(emits_changed_signal = "const"), name = "Uuid")]
    fn uuid(&self) -> Result<String, Error>;

    /// The daemon's number of it, from 0.
    #[zbus(property(emits_changed_signal = "const"), name = "Index")]
    fn index(&self) -> Result<u32, Error>;

    /// As the driver has it; empty where there is no NVML.
    #[zbus(property, name = "Name")]
    fn name(&self) -> Result<String, Error>;

    /// Whether NVML speaks for it.
    #[zbus(property, name = "HasNvml")]
    fn has_nvml(&self) -> Result<bool, Error>;

    /// All its memory.
    #[zbus(property, name = "MemoryBytes")]
    fn memory_bytes(&self) -> Result<u64, Error>;

    /// What processes hold of it, with an agent or without; by the agents where there is no NVML.
    #[zbus(property, name = "DeviceUsedBytes")]
    fn device_used_bytes(&self) -> Result<u64, Error>;

    /// The part of that which no task holds: of processes without an agent, and what agents do not count.
    #[zbus(property, name = "UnmanagedBytes")]
    fn unmanaged_bytes(&self) -> Result<u64, Error>;

    /// Whether NVML tells how busy it is; of MIG instances it does not.
    #[zbus(property, name = "HasUtilization")]
    fn has_utilization(&self) -> Result<bool, Error>;

    /// Percent of NVML's last sample period in which kernels ran; 0 where it does not tell.
    #[zbus(
        property(emits_changed_signal = "false"),
        name = "DeviceUtilizationPercent"
    )]
    fn device_utilization_percent(&self) -> Result<u32, Error>;

    /// mᴰ: what rtswap may hand out.
    #[zbus(property, name = "CapacityBytes")]
    fn capacity_bytes(&self) -> Result<u64, Error>;

    /// What its tasks hold and have reserved now.
    #[zbus(property, name = "UsedBytes")]
    fn used_bytes(&self) -> Result<u64, Error>;

    /// δ.
    #[zbus(property, name = "ChunkBytes")]
    fn chunk_bytes(&self) -> Result<u64, Error>;

    /// What the costs of swapping rest on, and with them each promise: `configured`, `calibrated` or `assumed`.
    #[zbus(property, name = "SwapCostSource")]
    fn swap_cost_source(&self) -> Result<String, Error>;

    /// When the GPU was calibrated, in µs since 1970; 0 where no calibration counts.
    #[zbus(property, name = "CalibratedUSec")]
    fn calibrated_usec(&self) -> Result<u64, Error>;

    /// ρ: the rate of a copy engine while the other one copies too over its rate alone, in ppm.
    #[zbus(property, name = "DuplexPpm")]
    fn duplex_ppm(&self) -> Result<u32, Error>;

    /// The time of one chunk from the GPU, by these costs, as admission charges it.
    #[zbus(property, name = "ChunkOutUSec")]
    fn chunk_out_usec(&self) -> Result<u64, Error>;

    /// The time of one chunk to the GPU, by these costs, as admission charges it.
    #[zbus(property, name = "ChunkInUSec")]
    fn chunk_in_usec(&self) -> Result<u64, Error>;

    /// What each operation from the GPU takes beside its chunks.
    #[zbus(property, name = "SwapOutBaseUSec")]
    fn swap_out_base_usec(&self) -> Result<u64, Error>;

    /// What each operation to the GPU takes beside its chunks.
    #[zbus(property, name = "SwapInBaseUSec")]
    fn swap_in_base_usec(&self) -> Result<u64, Error>;

    /// The task whose job holds the GPU; `/` where none does, `/org/rtswap/task` where it is one that the
    /// caller may not see.
    #[zbus(property(emits_changed_signal = "false"), name = "RunningTask")]
    fn running_task(&self) -> Result<OwnedObjectPath, Error>;

    /// ΣU of the plan, swaps included.
    #[zbus(property, name = "Utilization")]
    fn utilization(&self) -> Result<f64, Error>;

    /// B(all) of the plan.
    #[zbus(property, name = "BlockingUSec")]
    fn blocking_usec(&self) -> Result<u64, Error>;

    /// The bound on the wait of a best-effort job for its turn, the time of realtime jobs not counted:
    /// `longest_wait_s`, or longer where so many wait that one change for each takes longer. 0 for no bound.
    #[zbus(property(emits_changed_signal = "false"), name = "LongestWaitUSec")]
    fn longest_wait_usec(&self) -> Result<u64, Error>;

    /// What limits rtswap there, in words: a multi-process server, a vGPU, shared memory.
    #[zbus(property, name = "Notes")]
    fn notes(&self) -> Result<Vec<String>, Error>;
}
