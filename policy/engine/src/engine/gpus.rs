//! The GPUs: each with its scheduler and the account of its memory.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{Config as SchedulerConfig, Event, EventError, Refusal, Scheduler};
use rtswap_policy::task::{TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Time};

use super::work::WorkList;
use crate::Uuid;
use crate::config::{Config, GpuConfig};
use crate::ledger::{Account, Dead, Terms};

/// One GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) uuid: Uuid,
    pub(crate) scheduler: Scheduler,
    pub(crate) config: SchedulerConfig,
    pub(crate) account: Account,
    /// Dead processes whose memory the driver may still hold.
    pub(crate) dead: Vec<Dead>,
    /// When memory that the plan promises last was not there because of others, and whose it was.
    pub(crate) squeezed: Option<(Time, String)>,
    /// What happens to its process groups.
    pub(super) work: WorkList,
}

impl Gpu {
    /// A GPU without tasks.
    pub(super) fn new(gpu: &GpuConfig, config: &Config) -> Self {
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
            work: WorkList::default(),
        }
    }

    /// Hands an event to its scheduler.
    pub(super) fn tell(&mut self, now: Time, event: Event) -> Result<(), EventError> {
        self.work.expect_commands();
        self.scheduler.handle(now, event)
    }

    /// Registers a task with its scheduler.
    pub(super) fn register(
        &mut self,
        now: Time,
        task: TaskId,
        spec: TaskSpec,
    ) -> Result<Bytes, Refusal> {
        self.work.expect_commands();
        self.scheduler.register(now, task, spec)
    }
}
