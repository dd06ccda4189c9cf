//! One GPU: its scheduler and the account of its memory.

use rtswap_policy::admission::{Analysis, Candidate};
use rtswap_policy::scheduler::{Config as SchedulerConfig, Scheduler, TaskStatus};
use rtswap_policy::task::Class;
use rtswap_policy::units::Time;

use crate::config::{Config, GpuConfig, Uuid};
use crate::ledger::{Account, Dead, Terms};

/// One GPU.
pub(super) struct Gpu {
    pub(super) uuid: Uuid,
    pub(super) scheduler: Scheduler,
    pub(super) config: SchedulerConfig,
    pub(super) account: Account,
    /// Whose memory the driver may still hold.
    pub(super) dead: Vec<Dead>,
    /// When memory that the plan promises last was not there because of others, and whose it was.
    pub(super) squeezed: Option<(Time, String)>,
}

impl Gpu {
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
        }
    }

    /// The realtime tasks of the plan to come, and what the admission test says of them.
    pub(super) fn intended(&self) -> (Vec<TaskStatus>, Analysis) {
        let tasks = self.scheduler.state().tasks();
        let planned =
            tasks.filter_map(
                |task| match (task.class, task.next_volume.or(task.volume)) {
                    (Class::Realtime(timing), Some(volume)) => {
                        Some((task, Candidate { timing, volume }))
                    }
                    _ => None,
                },
            );
        let (tasks, candidates): (Vec<_>, Vec<_>) = planned.unzip();
        let analysis = self
            .config
            .test
            .analyse(&self.config.platform(), &candidates);
        (tasks, analysis)
    }

    /// What the admission test says of the plan in effect.
    pub(super) fn analysis(&self) -> Analysis {
        let candidates: Vec<_> = self
            .scheduler
            .state()
            .tasks()
            .filter_map(|task| match (task.class, task.volume) {
                (Class::Realtime(timing), Some(volume)) => Some(Candidate { timing, volume }),
                _ => None,
            })
            .collect();
        self.config
            .test
            .analyse(&self.config.platform(), &candidates)
    }
}
