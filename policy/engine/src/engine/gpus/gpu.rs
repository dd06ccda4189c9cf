//! One GPU with its scheduler and the account of its memory.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::admission::Analysis;
use rtswap_policy::scheduler::{
    Config as SchedulerConfig, Event, EventError, Refusal, Scheduler, TaskStatus,
};
use rtswap_policy::task::{TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::pace::Pace;
use super::plan::{self, Planned, Verdict};
use crate::Uuid;
use crate::config::{
    Calibration, Config, CostSource, DirectionCost, GpuConfig, SchedulerConfig as Shared,
};
use crate::engine::agenda::WorkList;
use crate::ids::ConnectionId;
use crate::ledger::{Account, Dead, Terms};

/// One GPU with its scheduler, its account and the work of its process groups. The scheduler knows one
/// task whatever the number of its processes: a process group stands between it and their pages.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) uuid: Uuid,
    pub(crate) scheduler: Scheduler,
    pub(crate) config: SchedulerConfig,
    pub(crate) account: Account,
    /// Dead processes with memory that the driver may not have released yet.
    pub(crate) dead: Vec<Dead>,
    /// When memory that the plan promises was last missing because of others, what they held, and,
    /// for the log, which process held most.
    pub(crate) squeezed: Option<(Time, String, String)>,
    /// When that was last so.
    pub(in crate::engine) short_at: Option<Time>,
    /// When the log was last told of a change of the capacity.
    pub(in crate::engine) capacity_said: Option<Time>,
    /// What happens to its process groups.
    pub(in crate::engine) work: WorkList,
    /// Tasks that the log says are starved.
    pub(in crate::engine) starving: BTreeSet<TaskId>,
    /// The connection of the stopped process that was looked at last.
    pub(in crate::engine) inspected: ConnectionId,
    /// Whether swaps take as long as their costs say.
    pub(crate) pace: Pace,
    /// The GPU as files and driver describe it, without its calibration.
    described: GpuConfig,
    /// The measurement that counts where no file says otherwise.
    calibration: Option<Calibration>,
    /// The verdict on the plan in effect.
    in_effect: Verdict,
    /// The verdict on the plan to come.
    to_come: Verdict,
}

impl Gpu {
    /// A GPU without tasks.
    pub(crate) fn new(
        described: GpuConfig,
        calibration: Option<Calibration>,
        config: &Config,
    ) -> Self {
        let gpu = calibrated(described, calibration.as_ref());
        let config = gpu.scheduler(&config.scheduler);
        let terms = Terms {
            memory: gpu.memory(),
            reserve: gpu.reserve(),
            chunk: config.chunk,
        };
        Self {
            uuid: gpu.uuid,
            scheduler: Scheduler::new(config),
            config,
            account: Account::new(terms),
            dead: Vec::new(),
            squeezed: None,
            short_at: None,
            capacity_said: None,
            work: WorkList::default(),
            starving: BTreeSet::new(),
            inspected: ConnectionId(0),
            pace: Pace::default(),
            described,
            calibration,
            in_effect: Verdict::default(),
            to_come: Verdict::default(),
        }
    }

    /// Its description with its calibration.
    pub(crate) fn effective(&self) -> GpuConfig {
        calibrated(self.described, self.calibration.as_ref())
    }

    /// What its costs rest on.
    pub(crate) fn cost_source(&self) -> CostSource {
        self.described.cost_source(self.calibration.is_some())
    }

    /// When it was calibrated, in seconds since 1970; none where it was not.
    pub(crate) fn measured(&self) -> Option<u64> {
        self.calibration.map(|calibration| calibration.measured)
    }

    /// The text of why a measurement cannot count here; none where it can.
    pub(in crate::engine) fn refuses(
        &self,
        calibration: &Calibration,
        shared: &Shared,
    ) -> Option<String> {
        self.described.refuses(calibration, shared)
    }

    /// Begins anew with a measurement. False, and nothing changes, while it has tasks or memory of dead processes.
    pub(in crate::engine) fn calibrate(
        &mut self,
        calibration: Calibration,
        shared: &Shared,
    ) -> bool {
        let config = self.described.calibrated(&calibration).scheduler(shared);
        if !self.dead.is_empty() || !self.scheduler.reconfigure(config) {
            return false;
        }
        self.config = config;
        self.calibration = Some(calibration);
        self.account.set_chunk(config.chunk);
        self.pace = Pace::default();
        (self.in_effect, self.to_come) = (Verdict::default(), Verdict::default());
        true
    }

    /// The time of one chunk out and in, by the costs that the plan counts on, with the other copy engine loaded.
    pub(crate) fn chunk_times(&self) -> (Nanos, Nanos) {
        let (cost, chunk) = (&self.config.swap_cost, self.config.chunk);
        // All of the speed but under `pipelined`: the others' costs are those of loaded engines.
        let share = self.config.duplex;
        let time = |cost: &DirectionCost| cost.chunk_time(chunk).slowed(share);
        (time(&cost.out), time(&cost.in_))
    }

    /// Hands an event to its scheduler.
    pub(in crate::engine) fn tell(&mut self, now: Time, event: Event) -> Result<(), EventError> {
        self.work.expect_commands();
        self.scheduler.handle(now, event)
    }

    /// Registers a task with its scheduler.
    pub(in crate::engine) fn register(
        &mut self,
        now: Time,
        task: TaskId,
        spec: TaskSpec,
    ) -> Result<Bytes, Refusal> {
        self.work.expect_commands();
        self.scheduler.register(now, task, spec)
    }

    /// Makes a task of its scheduler `spec`.
    pub(in crate::engine) fn change(
        &mut self,
        now: Time,
        task: TaskId,
        spec: &TaskSpec,
    ) -> Result<Bytes, Refusal> {
        self.work.expect_commands();
        self.scheduler.change(now, task, spec)
    }

    /// What the admission test says of the plan in effect. Computed once per plan.
    pub(crate) fn analysis(&mut self) -> &Analysis {
        let revision = self.scheduler.plan_revision();
        let candidates = || plan::in_effect(self.scheduler.state());
        self.in_effect.of(&self.config, revision, candidates)
    }

    /// The realtime tasks of the plan to come, and what the admission test says of them. Computed once
    /// per plan.
    pub(crate) fn intended(&mut self) -> (Vec<TaskStatus>, Analysis) {
        let revision = self.scheduler.plan_revision();
        let (tasks, candidates) = plan::to_come(self.scheduler.state());
        let analysis = self.to_come.of(&self.config, revision, || candidates);
        (tasks, analysis.clone())
    }

    /// The tasks under the plan, for what it leaves to the others. O(n log n) in the number of tasks.
    pub(crate) fn planned(&self) -> Planned<'_> {
        Planned::new(self.scheduler.state())
    }
}

fn calibrated(described: GpuConfig, calibration: Option<&Calibration>) -> GpuConfig {
    calibration.map_or(described, |calibration| described.calibrated(calibration))
}
