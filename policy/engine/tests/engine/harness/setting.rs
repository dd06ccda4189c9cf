//! What a run begins with: the GPUs' configuration and the tasks that clients register.

use rtswap_engine::config::{Config, Configured, GpuConfig, SchedulerConfig, Settings};
use rtswap_engine::registry::TaskOptions;
use rtswap_engine::rules::{RuleSet, Rules};
use rtswap_policy::admission::Test;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::Sharing;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::{CAPACITY, CHUNK, MEMORY, MS, UUIDS};

/// A task that a client registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskSetting {
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
    /// The index of the GPU of a realtime task.
    pub(crate) gpu: Option<usize>,
    /// The most that its processes hold on one GPU, in chunks.
    pub(crate) chunks: u64,
    /// How many of them a realtime task declares as not swappable.
    pub(crate) pinned: u64,
}

/// What a run begins with.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The number that chose it, and how slow the disk is.
    pub(crate) number: u64,
    pub(crate) test: Test,
    pub(crate) sharing: Sharing,
    pub(crate) tasks: Vec<TaskSetting>,
    /// The most that a process without a registration holds on one GPU, in chunks.
    pub(crate) own_chunks: u64,
}

impl Setting {
    /// One of several, by a number.
    pub(crate) fn of(number: u64) -> Self {
        // Two realtime tasks that fit with what best-effort may take of them, or that do not.
        let overflows = number % 4 == 3;
        let (realtime, best_effort) = if overflows { (14, 2) } else { (6, 8) };
        let task = |name, uid, gpu| TaskSetting {
            name,
            uid,
            gpu,
            chunks: if gpu.is_some() { realtime } else { best_effort },
            pinned: 1,
        };
        Self {
            number,
            test: [Test::Demand, Test::Pipelined, Test::Theorem1][number as usize / 4 % 3],
            sharing: match number / 12 % 4 {
                2 => Sharing::Auto,
                3 => Sharing::Shared,
                _ => Sharing::Exclusive,
            },
            tasks: vec![
                task("camera", 1000, Some(0)),
                task("lidar", 1000, Some(0)),
                task("radar", 1001, Some(1)),
                task("train", 1002, None),
                task("train", 1003, None),
                task("batch", 1004, None),
            ],
            own_chunks: if overflows { 1 } else { 2 },
        }
    }

    pub(crate) fn config(&self) -> Config {
        let direction = DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos(MS / 10),
            bytes_per_second: u64::MAX,
        };
        let gpu = |uuid| GpuConfig {
            uuid,
            memory: Some(MEMORY),
            reserve: Some(MEMORY - CAPACITY),
            best_effort_reserve: Some(Bytes(2 * CHUNK)),
            newcomers_reserve: None,
            chunk: Bytes(CHUNK),
            duplex: Ppm::ONE,
            swap_cost: SwapCost {
                out: direction,
                in_: direction,
            },
            configured: Configured::default(),
        };
        Config {
            settings: Settings::default(),
            scheduler: SchedulerConfig {
                sharing: self.sharing,
                test: self.test,
                swap_share: Ppm(100_000),
                longest_wait: Nanos(3_000 * MS),
                idle_gap: Nanos(2_000_000),
                // Agents take long at times: with the built-in bound nearly all would be barred.
                drain: (self.number % 8 != 7).then_some(Nanos(110 * MS)),
                ..SchedulerConfig::default()
            },
            gpus: UUIDS.map(gpu).to_vec(),
            subordinates: rtswap_engine::owners::Subordinates::default(),
            max_sessions: 10_000,
            everybody: Rules::default(),
            rules: RuleSet::new(),
        }
    }

    /// What a client declares of a task.
    pub(crate) fn options(&self, task: usize) -> TaskOptions {
        let TaskSetting {
            name,
            gpu,
            chunks,
            pinned,
            ..
        } = self.tasks[task];
        let Some(gpu) = gpu else {
            return TaskOptions::best_effort(name.into());
        };
        TaskOptions {
            name: name.into(),
            period: Some(Nanos((200 + 50 * task as u64) * MS)),
            wcet: Some(Nanos(20 * MS)),
            footprint: Some(Bytes(chunks * CHUNK)),
            swappable: Some(Bytes((chunks - pinned) * CHUNK)),
            gpu: Some(gpu.to_string()),
            ..TaskOptions::default()
        }
    }
}
