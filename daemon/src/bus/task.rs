//! The interface `org.rtswap.Task1`: one task of the snapshot.

use rtswap_dbus::TaskProperties;

use crate::dispatch::Handle;

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

    fn get<T>(&self, of: impl Fn(&TaskProperties) -> T) -> T {
        let snapshot = self.handle.snapshot();
        of(snapshot.tasks.get(&self.id).unwrap_or(&self.gone))
    }
}

#[zbus::interface(name = "org.rtswap.Task1", introspection_docs = false)]
impl Task1 {
    #[zbus(property(emits_changed_signal = "const"), name = "Name")]
    fn name(&self) -> String {
        self.get(|task| task.name.clone())
    }

    #[zbus(property, name = "Class")]
    fn class(&self) -> String {
        self.get(|task| task.class.clone())
    }

    #[zbus(property, name = "Phase")]
    fn phase(&self) -> String {
        self.get(|task| task.phase.clone())
    }

    #[zbus(property, name = "Gpu")]
    fn gpu(&self) -> String {
        self.get(|task| task.gpu.clone())
    }

    #[zbus(property(emits_changed_signal = "const"), name = "UserId")]
    fn user_id(&self) -> u32 {
        self.get(|task| task.user_id)
    }

    #[zbus(property, name = "ProcessId")]
    fn process_id(&self) -> u32 {
        self.get(|task| task.process_id)
    }

    #[zbus(property, name = "ProcessIds")]
    fn process_ids(&self) -> Vec<u32> {
        self.get(|task| task.process_ids.clone())
    }

    #[zbus(property, name = "PeriodUSec")]
    fn period_usec(&self) -> u64 {
        self.get(|task| task.period_usec)
    }

    #[zbus(property, name = "DeadlineUSec")]
    fn deadline_usec(&self) -> u64 {
        self.get(|task| task.deadline_usec)
    }

    #[zbus(property, name = "WcetUSec")]
    fn wcet_usec(&self) -> u64 {
        self.get(|task| task.wcet_usec)
    }

    #[zbus(property, name = "FootprintBytes")]
    fn footprint_bytes(&self) -> u64 {
        self.get(|task| task.footprint_bytes)
    }

    #[zbus(property, name = "SwappableBytes")]
    fn swappable_bytes(&self) -> u64 {
        self.get(|task| task.swappable_bytes)
    }

    #[zbus(property, name = "SwapVolumeBytes")]
    fn swap_volume_bytes(&self) -> u64 {
        self.get(|task| task.swap_volume_bytes)
    }

    #[zbus(property, name = "ResidentBytes")]
    fn resident_bytes(&self) -> u64 {
        self.get(|task| task.resident_bytes)
    }

    #[zbus(property, name = "SwappedBytes")]
    fn swapped_bytes(&self) -> u64 {
        self.get(|task| task.swapped_bytes)
    }

    #[zbus(property, name = "BudgetBytes")]
    fn budget_bytes(&self) -> u64 {
        self.get(|task| task.budget_bytes)
    }

    #[zbus(property, name = "BackingBytes")]
    fn backing_bytes(&self) -> u64 {
        self.get(|task| task.backing_bytes)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "Jobs")]
    fn jobs(&self) -> u64 {
        self.get(|task| task.jobs)
    }

    #[zbus(property, name = "DeadlineMisses")]
    fn deadline_misses(&self) -> u64 {
        self.get(|task| task.deadline_misses)
    }

    #[zbus(property, name = "MaxLatenessUSec")]
    fn max_lateness_usec(&self) -> u64 {
        self.get(|task| task.max_lateness_usec)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "ResponseP50USec")]
    fn response_p50_usec(&self) -> u64 {
        self.get(|task| task.response_p50_usec)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "ResponseP99USec")]
    fn response_p99_usec(&self) -> u64 {
        self.get(|task| task.response_p99_usec)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "ResponseMaxUSec")]
    fn response_max_usec(&self) -> u64 {
        self.get(|task| task.response_max_usec)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "SwapOutBytesTotal")]
    fn swap_out_bytes_total(&self) -> u64 {
        self.get(|task| task.swap_out_bytes_total)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "SwapInBytesTotal")]
    fn swap_in_bytes_total(&self) -> u64 {
        self.get(|task| task.swap_in_bytes_total)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "SwapOutUSecTotal")]
    fn swap_out_usec_total(&self) -> u64 {
        self.get(|task| task.swap_out_usec_total)
    }

    #[zbus(property(emits_changed_signal = "false"), name = "SwapInUSecTotal")]
    fn swap_in_usec_total(&self) -> u64 {
        self.get(|task| task.swap_in_usec_total)
    }

    #[zbus(property, name = "Violations")]
    fn violations(&self) -> u64 {
        self.get(|task| task.violations)
    }

    #[zbus(property, name = "Waits")]
    fn waits(&self) -> String {
        self.get(|task| task.waits.clone())
    }
}
