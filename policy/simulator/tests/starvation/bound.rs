//! How long jobs waited, and how long they may: the larger of the longest wait that is configured, and
//! what it takes to give each job that waits its turn.

use std::fmt;

use rtswap_policy::scheduler::Config;
use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Nanos, Time};
use rtswap_simulator::{Observer, Record, Scenario};

/// The shortest turn of the product's policy.
const SLICE: Nanos = Nanos(50_000_000);

/// When each job was requested and granted.
#[derive(Default)]
pub(crate) struct Waits(Vec<Wait>);

#[derive(Clone, Copy)]
struct Wait {
    task: usize,
    requested: Time,
    granted: Time,
}

/// The job that came closest to its bound, or went furthest beyond it.
pub(crate) struct Longest {
    task: usize,
    tasks: usize,
    requested: Time,
    waited: Nanos,
    bound: Nanos,
}

impl Waits {
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Observer for Waits {
    fn job(&mut self, record: &Record) {
        let account = &record.account;
        self.0.push(Wait {
            task: account.task.0 as usize,
            requested: account.requested,
            granted: account.granted.unwrap_or(account.ended),
        });
    }
}

impl Longest {
    pub(crate) fn ratio(&self) -> f64 {
        self.waited.0 as f64 / self.bound.0 as f64
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a job of task {} of {} requested at {} ns waited {}, bound {}",
            self.task, self.tasks, self.requested.0, self.waited, self.bound
        )
    }
}

/// What giving a program its turn may delay the others by, as `Fair` states it: all its memory comes while
/// as much leaves, and half of the shorter one is not at the same time; then it keeps the GPU for half as
/// long, 50 ms at least, and leaves it; and a program that has its memory may run for 50 ms meanwhile, and
/// leave.
fn turn(config: &Config, memory: MemoryProfile) -> Nanos {
    let move_out = config.swap_cost.out.bound(memory.swappable, config.chunk);
    let move_in = config.swap_cost.in_.bound(memory.swappable, config.chunk);
    let change = move_out.max(move_in) + Nanos(move_out.min(move_in).0 / 2);
    let least = SLICE.max(Nanos(change.0 / 2));
    change + least + config.drain + SLICE + config.drain
}

/// The longest wait by its bound: the largest that held while it lasted. None without jobs.
pub(crate) fn longest(scenario: &Scenario, waits: Waits) -> Option<Longest> {
    let config = &scenario.config;
    let tasks = scenario.tasks.iter();
    let turns: Vec<_> = tasks.map(|task| turn(config, task.spec.memory)).collect();
    let Waits(mut waits) = waits;
    waits.sort_by_key(|wait| wait.requested);
    // Those that wait, each with its bound until now.
    let mut waiting: Vec<(Wait, Nanos)> = Vec::new();
    let mut found: Option<Longest> = None;
    let mut judge = |(wait, bound): (Wait, Nanos)| {
        let this = Longest {
            task: wait.task,
            tasks: scenario.tasks.len(),
            requested: wait.requested,
            waited: wait.granted - wait.requested,
            bound,
        };
        if found
            .as_ref()
            .is_none_or(|found| found.ratio() < this.ratio())
        {
            found = Some(this);
        }
    };
    for wait in waits {
        waiting.retain(|other| {
            let waits = other.0.granted > wait.requested;
            if !waits {
                judge(*other);
            }
            waits
        });
        waiting.push((wait, config.longest_wait));
        let all: Nanos = waiting.iter().map(|(wait, _)| turns[wait.task]).sum();
        for (_, bound) in &mut waiting {
            *bound = (*bound).max(all);
        }
    }
    waiting.into_iter().for_each(judge);
    found
}
