//! The registrations as people see them.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{self, Direction, TurnStatus};
use rtswap_policy::task::{Class, MemoryProfile, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos};

use crate::Uuid;
use crate::engine::{Engine, Planned};
use crate::ids::RegistrationId;
use crate::registry::{Moved, Origin, Registration, Statistics};
use crate::rules::{Limits, Shape};
use crate::sessions::Session;

/// One registration with what its processes do on all GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// The number in its D-Bus path.
    pub registration: RegistrationId,
    /// The name, unique for the user.
    pub name: String,
    /// The user id; processes of this user may claim the registration.
    pub uid: u32,
    /// The class by which it is scheduled now.
    pub class: TreatedAs,
    /// What it does now.
    pub phase: Phase,
    /// Whether it stays off the GPU until it is resumed.
    pub parked: bool,
    /// The GPU with the lowest index that a scheduler knows it on, else the GPU of its registration;
    /// none while it has neither.
    pub gpu: Option<Uuid>,
    /// The pids of its processes, the oldest process first.
    pub processes: Vec<u32>,
    /// T, D and C as declared, D by the policy where that says one; none for a best-effort task. A demoted task keeps them.
    pub timing: Option<Timing>,
    /// m and mˢ as declared.
    pub declared: MemoryProfile,
    /// Its weight among best-effort tasks, as declared or by the policy.
    pub weight: Weight,
    /// How long it keeps its memory on the GPU without a job, as declared or by the policy; none if until others need it.
    pub idle_after: Option<Nanos>,
    /// What else the policy says of it.
    pub limits: Limits,
    /// Whether it ends with a lease that is open.
    pub leased: bool,
    /// Its memory, summed over all GPUs.
    pub memory: MemoryStatus,
    /// What its jobs and swaps came to.
    pub statistics: StatisticsStatus,
    /// Its turns, on several GPUs the largest value of each field; none where no GPU treats it as best-effort.
    pub turns: Option<TurnStatus>,
    /// The reason why its open job or its request for memory cannot be served at present, in words;
    /// none while nothing is in its way but the jobs before it. Also that it is parked, that a process of it is stopped while
    /// others wait, and for a minute why memory was refused.
    pub waits: Option<String>,
}

/// The class by which a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreatedAs {
    /// With its deadlines.
    Realtime,
    /// With what is left: as declared, or because it broke a promise.
    BestEffort,
}

impl TreatedAs {
    /// The name in status and D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::BestEffort => "best-effort",
        }
    }
}

/// What a task does, the most telling phase first: of several GPUs the least phase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has no process.
    Unclaimed,
    /// It has processes, but none of their agents can be talked to.
    Lost,
    /// A job runs.
    Running,
    /// Its memory comes back to the GPU.
    SwappingIn,
    /// Its memory leaves the GPU, or is to: it is parked.
    SwappingOut,
    /// It stays off the GPU until it is resumed, with a process or without.
    Parked,
    /// A job waits.
    Waiting,
    /// It is realtime and has not declared a job yet.
    Loading,
    /// It has no open job.
    Idle,
}

impl Phase {
    /// The name in status and D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::Lost => "lost",
            Self::Running => "running",
            Self::SwappingIn => "swapping-in",
            Self::SwappingOut => "swapping-out",
            Self::Parked => "parked",
            Self::Waiting => "waiting",
            Self::Loading => "loading",
            Self::Idle => "idle",
        }
    }

    /// What a task with an attached agent does on one GPU.
    fn on(task: &scheduler::TaskStatus) -> Self {
        let direction = task.op.map(|(_, direction, _)| direction);
        match (&task.job, direction) {
            (Some(job), _) if job.granted.is_some() => Self::Running,
            (_, Some(Direction::In)) => Self::SwappingIn,
            (_, Some(Direction::Out)) => Self::SwappingOut,
            _ if task.leaving > Bytes::ZERO => Self::SwappingOut,
            (Some(_), None) => Self::Waiting,
            (None, None) if task.phase == scheduler::Phase::Loading => Self::Loading,
            (None, None) => Self::Idle,
        }
    }
}

/// The memory of a task, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// x, the bytes that the plan lets leave the GPU; zero for a best-effort task.
    pub swap_volume: Bytes,
    /// The bytes on the GPU.
    pub resident: Bytes,
    /// The bytes in the backing store.
    pub swapped: Bytes,
    /// The bytes that it may hold on the GPU.
    pub budget: Bytes,
    /// The bytes that are pinned for its backing store.
    pub backing: Bytes,
}

/// What the jobs and swaps of a task came to, since its registration or the daemon's start. A job's
/// response time counts from its eligible instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsStatus {
    /// The number of jobs that ran to completion.
    pub jobs: u64,
    /// The number of them that ended late.
    pub misses: u64,
    /// By how much a job was late at most.
    pub worst_lateness: Nanos,
    /// The median response time of the last 4,096 jobs.
    pub median_response: Nanos,
    /// The 99th percentile of the same response times.
    pub p99_response: Nanos,
    /// The longest response time of all jobs.
    pub worst_response: Nanos,
    /// What was copied to the backing store, by the agent's measure.
    pub swapped_out: Moved,
    /// What was copied back, likewise.
    pub swapped_in: Moved,
    /// The number of broken promises and senseless reports.
    pub violations: u64,
}

impl MemoryStatus {
    fn add(&mut self, task: &scheduler::TaskStatus) {
        self.swap_volume += task.volume.or(task.next_volume).unwrap_or_default();
        self.resident += task.usage.resident;
        self.swapped += task.usage.swapped;
        self.budget += task.budget;
        self.backing += task.backing;
    }
}

/// The largest value of each field, so that no GPU hides what a task suffers on another.
pub(super) fn largest(one: TurnStatus, other: TurnStatus) -> TurnStatus {
    TurnStatus {
        gpu_share: one.gpu_share.max(other.gpu_share),
        swap_share: one.swap_share.max(other.swap_share),
        longest_wait: one.longest_wait.max(other.longest_wait),
    }
}

impl From<&Statistics> for StatisticsStatus {
    fn from(sums: &Statistics) -> Self {
        let (median_response, p99_response) = sums.percentiles();
        Self {
            jobs: sums.jobs,
            misses: sums.misses,
            worst_lateness: sums.worst_lateness,
            median_response,
            p99_response,
            worst_response: sums.worst_response,
            swapped_out: sums.out,
            swapped_in: sums.in_,
            violations: sums.violations,
        }
    }
}

impl Engine {
    /// One registration. `planned` is what the plan of each GPU keeps there.
    pub(super) fn task_status(&self, entry: &Registration, planned: &[Planned<'_>]) -> TaskStatus {
        let on = self.tasks.of(entry.id);
        let first = on.clone().next();
        let states = on
            .clone()
            .filter_map(|(gpu, task)| self.gpus[gpu].scheduler.state().task(task));
        let sessions = self.sessions.of(entry.id).map(|(_, session)| session);
        let status = describe(
            entry,
            (&self.shape(entry), self.limits(entry)),
            states,
            sessions,
        );
        let turns = on
            .clone()
            .filter_map(|(gpu, task)| self.gpus[gpu].scheduler.state().turns(task, self.now));
        TaskStatus {
            turns: turns.reduce(largest),
            gpu: first.map(|(gpu, _)| self.gpus[gpu].uuid).or(status.gpu),
            waits: self
                .standstill(entry.id)
                .or_else(|| entry.parked_text())
                .or_else(|| {
                    let why = on.clone().find_map(|(gpu, task)| {
                        let hindrance = self.hindrance(gpu, task);
                        hindrance.or_else(|| planned[gpu].starved(task))
                    });
                    why.or_else(|| self.refusal(entry.id))
                }),
            ..status
        }
    }
}

/// A registration with what the policy says of it, what each GPU's scheduler knows of it, and its sessions, the oldest first.
pub(super) fn describe<'a>(
    entry: &Registration,
    (shape, limits): (&Shape, Limits),
    states: impl Iterator<Item = scheduler::TaskStatus>,
    sessions: impl Iterator<Item = &'a Session>,
) -> TaskStatus {
    let (mut processes, mut is_connected) = (Vec::new(), false);
    for session in sessions {
        processes.push(session.peer.pid);
        is_connected |= session.is_connected;
    }
    let (mut memory, mut phase) = (MemoryStatus::default(), Phase::Idle);
    let mut is_demoted = shape.class == Class::BestEffort;
    for task in states {
        memory.add(&task);
        phase = phase.min(Phase::on(&task));
        is_demoted |=
            matches!(task.class, Class::Realtime(_)) && task.phase == scheduler::Phase::BestEffort;
    }
    let timing = shape.timing;
    TaskStatus {
        registration: entry.id,
        name: entry.task.name.clone(),
        uid: entry.uid,
        class: if timing.is_some() && !is_demoted {
            TreatedAs::Realtime
        } else {
            TreatedAs::BestEffort
        },
        parked: entry.parked,
        phase: match (processes.is_empty(), is_connected) {
            (true, _) if entry.parked => Phase::Parked,
            (true, _) => Phase::Unclaimed,
            (false, false) => Phase::Lost,
            (false, true) if entry.parked => phase.min(Phase::Parked),
            (false, true) => phase,
        },
        gpu: entry.gpu,
        processes,
        timing,
        declared: entry.task.memory,
        weight: shape.weight,
        idle_after: shape.idle_after,
        limits,
        leased: entry.origin == Origin::Lease,
        memory,
        statistics: StatisticsStatus::from(&entry.statistics),
        turns: None,
        waits: None,
    }
}
