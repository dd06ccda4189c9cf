//! What others may see: plain values, replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtswap_dbus::{GpuProperties, TaskProperties};
use rtswap_policy::scheduler::{Direction, Phase, TaskStatus};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::page::KeptReport;

use super::Dispatcher;
use super::gpu::Gpu;
use super::probed::ProbedView;
use super::statistics::Statistics;
use crate::agent::session::Session;
use crate::members::MemberId;
use crate::registry::Registration;
use crate::source::probes::ProbeState;

/// Everything that D-Bus serves.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By registration number.
    pub tasks: BTreeMap<u64, TaskProperties>,
    /// By index.
    pub gpus: Vec<GpuProperties>,
    /// The GPUs themselves, by index.
    pub devices: Vec<Device>,
    /// Who uses a GPU, and who has a session: by pid, one for each GPU that the process uses.
    pub processes: Vec<Process>,
    /// How the probes do.
    pub probes: Arc<ProbeState>,
    /// GPUs that are no place for tasks, each with why, and what to do.
    pub left_alone: Vec<String>,
}

/// What the driver tells of a GPU, or the configuration where there is no NVML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// As the driver has it; empty where there is no NVML.
    pub name: String,
    /// All memory.
    pub total: Bytes,
    /// What processes hold of it, managed or not, by NVML; by the agents where there is none.
    pub used: Bytes,
    /// What of it no task holds: processes without an agent, and what agents do not count.
    pub unmanaged: Bytes,
    /// Percent of the last sample period in which kernels ran; none where NVML does not tell.
    pub utilization: Option<u32>,
    /// Whether NVML speaks for this GPU.
    pub nvml: bool,
}

/// A process on one GPU, with what each witness says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// In the daemon's PID namespace.
    pub pid: u32,
    /// Its user; unknown once it is gone.
    pub uid: Option<u32>,
    /// Its short name.
    pub comm: String,
    /// The GPU's index; none for a session that uses no GPU.
    pub gpu: Option<usize>,
    /// Its container or its unit, where it is in one.
    pub origin: Option<Arc<str>>,
    /// What NVML says that it holds; none where NVML does not show it.
    pub nvml: Option<Bytes>,
    /// What the probes count for it; none where they have not seen it.
    pub probed: Option<ProbedView>,
    /// What its agent says that it holds; none where it has no agent.
    pub agent: Option<Bytes>,
    /// What its agent keeps there for others.
    pub kept: KeptReport,
    /// Its registration.
    pub task: Option<u64>,
    /// Whether it has an agent; until NVML shows it no more, also of a dead one.
    pub managed: bool,
    /// Whether its agent can be talked to.
    pub attached: bool,
    /// Where the witnesses differ: `untracked`, `overreport`, `underreport`,
    /// `unaccounted` or `baseline-unknown`.
    pub disagreement: Option<&'static str>,
}

impl Dispatcher {
    /// Publishes what is known now.
    pub(super) fn publish(&mut self, now: Time) {
        self.unpublished = false;
        self.published_at = now;
        let mut statuses: BTreeMap<TaskId, TaskStatus> = BTreeMap::new();
        for gpu in &self.gpus {
            let state = gpu.scheduler.state();
            statuses.extend(state.tasks().map(|task| (task.task, task)));
        }
        let mut tasks = BTreeMap::new();
        for entry in self.registry.iter() {
            let statistics = self.statistics.entry(entry.id).or_default();
            let own = self.tasks.range((entry.id, 0)..=(entry.id, usize::MAX));
            let on: Vec<_> = own.clone().map(|((_, gpu), _)| *gpu).collect();
            let places: Vec<_> = own.filter_map(|(_, task)| statuses.get(task)).collect();
            let all = (entry.id, MemberId(0))..=(entry.id, MemberId(u64::MAX));
            let sessions: Vec<_> = self.sessions.range(all).map(|(_, it)| it).collect();
            let mut properties = describe(entry, &places, &sessions, statistics);
            if let Some(&gpu) = on.first() {
                properties.gpu = self.gpus[gpu].uuid.to_string();
            }
            tasks.insert(entry.id.0, properties);
        }
        let devices: Vec<_> = (0..self.gpus.len()).map(|gpu| self.device(gpu)).collect();
        let gpus = (0..self.gpus.len())
            .zip(&devices)
            .map(|(gpu, device)| self.describe_gpu(gpu, device))
            .collect();
        let snapshot = Snapshot {
            tasks,
            gpus,
            devices,
            processes: self.processes(),
            probes: self.probe_state(),
            left_alone: self.left_alone(),
        };
        self.snapshot.send_replace(Arc::new(snapshot));
    }

    fn describe_gpu(&self, index: usize, device: &Device) -> GpuProperties {
        let gpu = &self.gpus[index];
        let (status, analysis) = (gpu.scheduler.state().gpu(), gpu.analysis());
        let running = status
            .running
            .first()
            .and_then(|task| self.places.get(task));
        GpuProperties {
            uuid: gpu.uuid.to_string(),
            index: index as u32,
            name: device.name.clone(),
            has_nvml: device.nvml,
            memory_bytes: device.total.0,
            device_used_bytes: device.used.0,
            unmanaged_bytes: device.unmanaged.0,
            has_utilization: device.utilization.is_some(),
            device_utilization_percent: device.utilization.unwrap_or_default(),
            capacity_bytes: status.capacity.0,
            used_bytes: status.used.0,
            chunk_bytes: gpu.config.chunk.0,
            running_task: running.map_or_else(
                || zbus::ObjectPath::from_static_str_unchecked("/").into(),
                |place| rtswap_dbus::task_path(place.registration.0),
            ),
            // An empty sum of floats is −0.
            utilization: analysis.utilization + 0.0,
            blocking_usec: micros(analysis.blocking.total),
            notes: notes(gpu),
        }
    }
}

/// What limits rtswap there.
fn notes(gpu: &Gpu) -> Vec<String> {
    let caveat = gpu.account.last().and_then(|last| last.caveat);
    let shared = gpu.account.is_shared().then(|| MPS.to_owned());
    caveat
        .map(|caveat| caveat.to_string())
        .into_iter()
        .chain(shared)
        .collect()
}

const MPS: &str = "a multi-process server (MPS) runs: NVML cannot tell what each of its clients holds, so \
                   that agents are believed and only the sum of all others is known";

fn describe(
    entry: &Registration,
    places: &[&TaskStatus],
    sessions: &[&Session],
    statistics: &Statistics,
) -> TaskProperties {
    let timing = match entry.class {
        Class::Realtime(timing) => Some(timing),
        Class::BestEffort => None,
    };
    let sum =
        |bytes: fn(&TaskStatus) -> Bytes| places.iter().map(|place| bytes(place)).sum::<Bytes>();
    let demoted = places
        .iter()
        .any(|place| matches!(place.class, Class::Realtime(_)) && place.phase == Phase::BestEffort);
    let processes: Vec<_> = sessions.iter().map(|session| session.peer.pid).collect();
    let (median, percentile) = statistics.percentiles();
    TaskProperties {
        name: entry.name.clone(),
        class: match timing {
            Some(_) if !demoted && !entry.demoted => "realtime",
            Some(_) | None => "best-effort",
        }
        .to_owned(),
        phase: phase(places, sessions).to_owned(),
        gpu: entry.gpu.map(|uuid| uuid.to_string()).unwrap_or_default(),
        user_id: entry.uid,
        process_id: processes.first().copied().unwrap_or_default(),
        process_ids: processes,
        period_usec: timing.map_or(0, |timing| micros(timing.period)),
        deadline_usec: timing.map_or(0, |timing| micros(timing.deadline)),
        wcet_usec: timing.map_or(0, |timing| micros(timing.wcet)),
        footprint_bytes: entry.memory.footprint.0,
        swappable_bytes: entry.memory.swappable.0,
        swap_volume_bytes: sum(|place| place.volume.or(place.next_volume).unwrap_or_default()).0,
        resident_bytes: sum(|place| place.usage.resident).0,
        swapped_bytes: sum(|place| place.usage.swapped).0,
        budget_bytes: sum(|place| place.budget).0,
        backing_bytes: sum(|place| place.backing).0,
        jobs: statistics.jobs,
        deadline_misses: statistics.misses,
        max_lateness_usec: micros(statistics.worst_lateness),
        response_p50_usec: micros(median),
        response_p99_usec: micros(percentile),
        response_max_usec: micros(statistics.worst_response),
        swap_out_bytes_total: statistics.out.bytes,
        swap_in_bytes_total: statistics.in_.bytes,
        swap_out_usec_total: micros(statistics.out.time),
        swap_in_usec_total: micros(statistics.in_.time),
        violations: statistics.violations,
    }
}

/// What a task does, in one word: what it does on any of its GPUs, the most telling first.
fn phase(places: &[&TaskStatus], sessions: &[&Session]) -> &'static str {
    if sessions.is_empty() {
        return "unclaimed";
    }
    if !sessions.iter().any(|session| session.is_connected()) {
        return "lost";
    }
    let any = |is: fn(&TaskStatus) -> bool| places.iter().any(|place| is(place));
    if any(|place| place.job.is_some_and(|job| job.granted.is_some())) {
        "running"
    } else if any(|place| matches!(place.op, Some((_, Direction::In, _)))) {
        "swapping-in"
    } else if any(|place| matches!(place.op, Some((_, Direction::Out, _)))) {
        "swapping-out"
    } else if any(|place| place.job.is_some()) {
        "waiting"
    } else if any(|place| place.phase == Phase::Loading) {
        "loading"
    } else {
        "idle"
    }
}

/// Rounded up: a bound is not made shorter by its unit.
fn micros(span: Nanos) -> u64 {
    span.0.div_ceil(1000)
}
