//! `org.rtswap.Task1`.

use zbus::OwnedObjectPath;

use crate::Error;

/// One task. Of others' tasks only `Class`, `Gpu` and `UserId` are told.
#[zbus::proxy(interface = "org.rtswap.Task1", default_service = "org.rtswap")]
pub trait Task1 {
    /// The name, unique per user.
    #[zbus(property(emits_changed_signal = "const"), name = "Name")]
    fn name(&self) -> Result<String, Error>;

    /// `realtime` or `best-effort`.
    #[zbus(property, name = "Class")]
    fn class(&self) -> Result<String, Error>;

    /// What it does now: `unclaimed`, `loading`, `idle`, `waiting`, `swapping-out`, `swapping-in`, `running`,
    /// `parked`, `lost` or `gone`.
    #[zbus(property, name = "Phase")]
    fn phase(&self) -> Result<String, Error>;

    /// Whether it stays off the GPU, with its jobs waiting, until it is resumed.
    #[zbus(property, name = "Parked")]
    fn parked(&self) -> Result<bool, Error>;

    /// Its GPU; `/` while it has none.
    #[zbus(property, name = "Gpu")]
    fn gpu(&self) -> Result<OwnedObjectPath, Error>;

    /// The user that may claim it.
    #[zbus(property(emits_changed_signal = "const"), name = "UserId")]
    fn user_id(&self) -> Result<u32, Error>;

    /// Its process in the daemon's PID namespace, of several the oldest; 0 while there is none.
    #[zbus(property, name = "ProcessId")]
    fn process_id(&self) -> Result<u32, Error>;

    /// All its processes, the oldest first.
    #[zbus(property, name = "ProcessIds")]
    fn process_ids(&self) -> Result<Vec<u32>, Error>;

    /// T as declared; 0 where none was.
    #[zbus(property, name = "PeriodUSec")]
    fn period_usec(&self) -> Result<u64, Error>;

    /// D as declared; 0 where none was.
    #[zbus(property, name = "DeadlineUSec")]
    fn deadline_usec(&self) -> Result<u64, Error>;

    /// C as declared; 0 where none was.
    #[zbus(property, name = "WcetUSec")]
    fn wcet_usec(&self) -> Result<u64, Error>;

    /// m as declared.
    #[zbus(property, name = "FootprintBytes")]
    fn footprint_bytes(&self) -> Result<u64, Error>;

    /// mˢ as declared.
    #[zbus(property, name = "SwappableBytes")]
    fn swappable_bytes(&self) -> Result<u64, Error>;

    /// Its weight among best-effort tasks, as declared: 100 where nothing was. A realtime task has it while it
    /// is treated as best-effort.
    #[zbus(property, name = "Weight")]
    fn weight(&self) -> Result<u32, Error>;

    /// How long it keeps its memory on the GPU without a job while it is treated as best-effort, as declared or by the
    /// policy; 0 where it does until others need it.
    #[zbus(property, name = "IdleAfterUSec")]
    fn idle_after_usec(&self) -> Result<u64, Error>;

    /// The most bytes that the policy lets it have on each GPU, swapped out or not: the smaller cap of its own and of all
    /// tasks of its user together, whatever the others have of that. [`crate::objects::NO_LIMIT`] where no rule caps them.
    #[zbus(property, name = "GpuMemoryLimitBytes")]
    fn gpu_memory_limit_bytes(&self) -> Result<u64, Error>;

    /// The bytes of these that may need pinned memory of the host, likewise.
    #[zbus(property, name = "PinnedMemoryLimitBytes")]
    fn pinned_memory_limit_bytes(&self) -> Result<u64, Error>;

    /// What follows from its violations by the policy: `warn`, `demote` or `kill`.
    #[zbus(property, name = "OnViolation")]
    fn on_violation(&self) -> Result<String, Error>;

    /// Whether it ends with the lease of [`crate::Manager1Proxy::register_with_lease`]. False once that has ended or the
    /// task was unregistered, while a process of it goes on.
    #[zbus(property, name = "Leased")]
    fn leased(&self) -> Result<bool, Error>;

    /// x: what the plan lets leave the GPU.
    #[zbus(property, name = "SwapVolumeBytes")]
    fn swap_volume_bytes(&self) -> Result<u64, Error>;

    /// On the GPU now.
    #[zbus(property, name = "ResidentBytes")]
    fn resident_bytes(&self) -> Result<u64, Error>;

    /// In the backing store now.
    #[zbus(property, name = "SwappedBytes")]
    fn swapped_bytes(&self) -> Result<u64, Error>;

    /// What it may hold now.
    #[zbus(property, name = "BudgetBytes")]
    fn budget_bytes(&self) -> Result<u64, Error>;

    /// Pinned for its backing store.
    #[zbus(property, name = "BackingBytes")]
    fn backing_bytes(&self) -> Result<u64, Error>;

    /// Jobs that ran to completion.
    #[zbus(property(emits_changed_signal = "false"), name = "Jobs")]
    fn jobs(&self) -> Result<u64, Error>;

    /// Of them, those that ended late.
    #[zbus(property, name = "DeadlineMisses")]
    fn deadline_misses(&self) -> Result<u64, Error>;

    /// By how much at most.
    #[zbus(property, name = "MaxLatenessUSec")]
    fn max_lateness_usec(&self) -> Result<u64, Error>;

    /// Median response time of the last 4,096 jobs; a job responds from its eligible instant.
    #[zbus(property(emits_changed_signal = "false"), name = "ResponseP50USec")]
    fn response_p50_usec(&self) -> Result<u64, Error>;

    /// Their 99th percentile.
    #[zbus(property(emits_changed_signal = "false"), name = "ResponseP99USec")]
    fn response_p99_usec(&self) -> Result<u64, Error>;

    /// The longest response time of all jobs.
    #[zbus(property(emits_changed_signal = "false"), name = "ResponseMaxUSec")]
    fn response_max_usec(&self) -> Result<u64, Error>;

    /// Copied to the backing store so far.
    #[zbus(property(emits_changed_signal = "false"), name = "SwapOutBytesTotal")]
    fn swap_out_bytes_total(&self) -> Result<u64, Error>;

    /// Copied back so far.
    #[zbus(property(emits_changed_signal = "false"), name = "SwapInBytesTotal")]
    fn swap_in_bytes_total(&self) -> Result<u64, Error>;

    /// Time spent on it, each operation from its request to its acknowledgement.
    #[zbus(property(emits_changed_signal = "false"), name = "SwapOutUSecTotal")]
    fn swap_out_usec_total(&self) -> Result<u64, Error>;

    /// Time spent on it, each operation from its request to its acknowledgement.
    #[zbus(property(emits_changed_signal = "false"), name = "SwapInUSecTotal")]
    fn swap_in_usec_total(&self) -> Result<u64, Error>;

    /// The part of the last one to two minutes in which it had the GPU, in ppm; 0 while it is not treated as
    /// best-effort.
    #[zbus(property(emits_changed_signal = "false"), name = "GpuSharePpm")]
    fn gpu_share_ppm(&self) -> Result<u32, Error>;

    /// The part of that time in which the GPU stood still until its memory was there for a turn, in ppm.
    #[zbus(property(emits_changed_signal = "false"), name = "SwapSharePpm")]
    fn swap_share_ppm(&self) -> Result<u32, Error>;

    /// The longest that one of its jobs has waited for its turn in that time, one that still waits included.
    #[zbus(property(emits_changed_signal = "false"), name = "LongestWaitUSec")]
    fn longest_wait_usec(&self) -> Result<u64, Error>;

    /// Broken promises and senseless reports so far.
    #[zbus(property, name = "Violations")]
    fn violations(&self) -> Result<u64, Error>;

    /// Why its open job or its request for memory cannot be served at present, in words: which tasks'
    /// plan keeps the memory, how much is left and how much it needs. Empty while nothing but the jobs
    /// before it is in its way.
    #[zbus(property, name = "Waits")]
    fn waits(&self) -> Result<String, Error>;

    /// When the counts of jobs, misses, swaps and violations began, in µs since 1970: with the task, or
    /// with the daemon's start.
    #[zbus(property(emits_changed_signal = "const"), name = "CountingSinceUSec")]
    fn counting_since_usec(&self) -> Result<u64, Error>;

    /// The last job that ended late: its number, by how much, and where its time went. Empty while
    /// there was none.
    #[zbus(property, name = "LastDeadlineMiss")]
    fn last_deadline_miss(&self) -> Result<String, Error>;

    /// The kind of the last violation, and its numbers. Empty while there was none.
    #[zbus(property, name = "LastViolation")]
    fn last_violation(&self) -> Result<String, Error>;
}
