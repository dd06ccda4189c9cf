//! The values that D-Bus serves: plain data, replaced as a whole.

use std::collections::BTreeMap;

use rtswap_dbus::objects::NO_LIMIT;
use rtswap_dbus::text::escape;
use rtswap_dbus::{GpuProperties, TaskProperties};
use rtswap_engine::rules::Row;
use rtswap_engine::sample::ProbeState;
use rtswap_engine::status::{GpuStatus, ProcessStatus, Status, TaskStatus};
use rtswap_policy::units::Nanos;
use zbus::OwnedObjectPath;

use super::publish::Record;

/// Everything that D-Bus serves.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The tasks, by registration number.
    pub tasks: BTreeMap<u64, TaskProperties>,
    /// The GPUs, by index.
    pub gpus: Vec<GpuProperties>,
    /// The processes that use a GPU or have a session.
    pub processes: Vec<ProcessStatus>,
    /// Whether the probes count, and how completely.
    pub probes: ProbeState,
    /// The rules of the policy.
    pub policy: Vec<Row>,
    /// For each GPU that no task can run on, a sentence with the reason and what to do.
    pub left_alone: Vec<String>,
}

impl Snapshot {
    /// Converts the engine's status to D-Bus's types and units, each task with its record, which is made
    /// if there is none.
    pub(super) fn new(status: Status, records: &mut BTreeMap<u64, Record>) -> Self {
        let tasks = status.tasks.into_iter();
        let gpus = status.gpus.iter().enumerate();
        Self {
            tasks: tasks
                .map(|task| {
                    let id = task.registration.0;
                    let record = records.entry(id).or_insert_with(Record::begin);
                    (id, of_task(task, &status.gpus, record))
                })
                .collect(),
            gpus: gpus.map(|(index, gpu)| of_gpu(index, gpu)).collect(),
            processes: status.processes,
            probes: status.probes,
            policy: status.policy,
            left_alone: status
                .left_alone
                .iter()
                .map(|text| escape(text).into_owned())
                .collect(),
        }
    }
}

fn of_task(task: TaskStatus, gpus: &[GpuStatus], record: &Record) -> TaskProperties {
    let TaskStatus {
        timing,
        memory,
        statistics,
        turns,
        ..
    } = task;
    let index = gpus.iter().position(|gpu| Some(gpu.uuid) == task.gpu);
    TaskProperties {
        name: task.name,
        class: task.class.name().to_owned(),
        phase: task.phase.name().to_owned(),
        parked: task.parked,
        gpu: index.map_or_else(OwnedObjectPath::default, |index| {
            rtswap_dbus::gpu_path(index as u32)
        }),
        user_id: task.uid,
        process_id: task.processes.first().copied().unwrap_or_default(),
        process_ids: task.processes,
        period_usec: timing.map_or(0, |timing| micros(timing.period)),
        deadline_usec: timing.map_or(0, |timing| micros(timing.deadline)),
        wcet_usec: timing.map_or(0, |timing| micros(timing.wcet)),
        footprint_bytes: task.declared.footprint.0,
        swappable_bytes: task.declared.swappable.0,
        weight: task.weight.get(),
        idle_after_usec: task.idle_after.map_or(0, micros),
        gpu_memory_limit_bytes: task.limits.gpu_memory.map_or(NO_LIMIT, |bytes| bytes.0),
        pinned_memory_limit_bytes: task.limits.pinned_memory.map_or(NO_LIMIT, |bytes| bytes.0),
        on_violation: task.limits.on_violation.name().to_owned(),
        leased: task.leased,
        swap_volume_bytes: memory.swap_volume.0,
        resident_bytes: memory.resident.0,
        swapped_bytes: memory.swapped.0,
        budget_bytes: memory.budget.0,
        backing_bytes: memory.backing.0,
        jobs: statistics.jobs,
        deadline_misses: statistics.misses,
        max_lateness_usec: micros(statistics.worst_lateness),
        response_p50_usec: micros(statistics.median_response),
        response_p99_usec: micros(statistics.p99_response),
        response_max_usec: micros(statistics.worst_response),
        swap_out_bytes_total: statistics.swapped_out.bytes.0,
        swap_in_bytes_total: statistics.swapped_in.bytes.0,
        swap_out_usec_total: micros(statistics.swapped_out.time),
        swap_in_usec_total: micros(statistics.swapped_in.time),
        gpu_share_ppm: turns.map_or(0, |turns| turns.gpu_share.0),
        swap_share_ppm: turns.map_or(0, |turns| turns.swap_share.0),
        longest_wait_usec: turns.map_or(0, |turns| micros(turns.longest_wait)),
        violations: statistics.violations,
        waits: task.waits.unwrap_or_default(),
        counting_since_usec: record.since_usec,
        last_deadline_miss: record.last_deadline_miss.clone(),
        last_violation: record.last_violation.clone(),
    }
}

fn of_gpu(index: usize, gpu: &GpuStatus) -> GpuProperties {
    let device = &gpu.device;
    GpuProperties {
        uuid: gpu.uuid.to_string(),
        index: index as u32,
        name: escape(&device.name).into_owned(),
        has_nvml: device.has_nvml,
        memory_bytes: device.total.0,
        device_used_bytes: device.used.0,
        unmanaged_bytes: device.unmanaged.0,
        has_utilization: device.utilization.is_some(),
        device_utilization_percent: device.utilization.unwrap_or_default(),
        capacity_bytes: gpu.capacity.0,
        used_bytes: gpu.used.0,
        chunk_bytes: gpu.chunk.0,
        swap_cost_source: gpu.cost_source.name().to_owned(),
        calibrated_usec: gpu
            .measured
            .map_or(0, |seconds| seconds.saturating_mul(1_000_000)),
        duplex_ppm: gpu.duplex.0,
        chunk_out_usec: micros(gpu.chunk_times.0),
        chunk_in_usec: micros(gpu.chunk_times.1),
        swap_out_base_usec: micros(gpu.bases.0),
        swap_in_base_usec: micros(gpu.bases.1),
        running_task: gpu.running.map_or_else(
            || zbus::ObjectPath::from_static_str_unchecked("/").into(),
            |task| rtswap_dbus::task_path(task.0),
        ),
        utilization: gpu.utilization,
        blocking_usec: micros(gpu.blocking),
        longest_wait_usec: gpu.longest_wait.map_or(0, micros),
        notes: gpu
            .notes
            .iter()
            .map(|text| escape(text).into_owned())
            .collect(),
    }
}

/// Rounded up: a bound is not made shorter by its unit.
fn micros(span: Nanos) -> u64 {
    span.0.div_ceil(1000)
}
