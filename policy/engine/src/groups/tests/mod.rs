//! A group alone: `scenes` are single conversations, `sequences` says what holds in all of them. The
//! groups of an engine between schedulers and agents are tried in tests/engine.

mod scenes;
mod sequences;

use alloc::vec::Vec;

use rtswap_policy::scheduler::{
    BudgetAnswer, BudgetRequestSeq, Command, Direction, Event, JobKind, JobSeq, SwapSeq, Usage,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use crate::groups::{Effect, Order, ProcessGroup, ProcessId, Report};

const CHUNK: u64 = 10;
const MS: u64 = 1_000_000;

const TASK: TaskId = TaskId(7);
const A: ProcessId = ProcessId(1);
const B: ProcessId = ProcessId(2);

struct Scene {
    group: ProcessGroup,
    /// The time of the scene in milliseconds.
    now: u64,
}

impl Scene {
    /// A realtime group with these processes, each with so many bytes in its backing store.
    fn new(processes: &[(ProcessId, u64)]) -> Self {
        let group = ProcessGroup::new(TASK, Bytes(CHUNK), true);
        let mut scene = Self { group, now: 0 };
        for &(id, swapped) in processes {
            let bytes = Bytes(swapped);
            let usage = Usage {
                resident: Bytes::ZERO,
                swapped: bytes,
                arena: bytes,
            };
            scene.attach(id, usage, bytes);
        }
        scene
    }

    /// A process says Hello, without a job.
    fn attach(&mut self, id: ProcessId, usage: Usage, backing: Bytes) -> Vec<Effect> {
        let now = self.time();
        let attached = self
            .group
            .attach(now, id, usage, backing, None, usage.resident);
        assert_eq!(attached, Ok(()));
        self.effects()
    }

    fn time(&self) -> Time {
        Time(self.now * MS)
    }

    /// All that follows; budgets are confirmed as ordered.
    fn effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            while let Some(effect) = self.group.poll() {
                if let Effect::Order(id, Order::SetBudget { bytes, .. }) = effect {
                    self.group.confirm_budget(id, bytes);
                }
                effects.push(effect);
            }
            if !self.group.step() {
                return effects;
            }
        }
    }

    fn obey(&mut self, command: &Command) -> Vec<Effect> {
        self.group.obey(self.time(), command);
        self.effects()
    }

    fn report(&mut self, id: ProcessId, report: Report) -> Vec<Effect> {
        let heard = self.group.report(self.time(), id, report);
        assert_eq!(heard, Ok(()));
        self.effects()
    }

    /// Ticks at that time, in milliseconds.
    fn tick(&mut self, now: u64) -> Vec<Effect> {
        self.now = now;
        self.group.tick(self.time());
        self.effects()
    }

    /// When the group is due, in milliseconds.
    fn due(&self) -> Option<u64> {
        self.group.poll_timeout().map(|due| due.0 / MS)
    }

    fn budget(&mut self, bytes: u64) -> Vec<Effect> {
        self.answer(bytes, None)
    }

    fn answer(&mut self, bytes: u64, answers: Option<BudgetAnswer>) -> Vec<Effect> {
        let (task, bytes) = (TASK, Bytes(bytes));
        self.obey(&Command::SetBudget {
            task,
            bytes,
            answers,
        })
    }

    fn swap_in(&mut self, target: u64) -> Vec<Effect> {
        self.swap(Direction::In, Bytes(target))
    }

    fn swap(&mut self, direction: Direction, target: Bytes) -> Vec<Effect> {
        let (task, op) = (TASK, SwapSeq(1));
        self.obey(&Command::Swap {
            task,
            op,
            direction,
            target,
        })
    }

    fn job(&mut self, id: ProcessId, job: u32) -> Vec<Effect> {
        let (job, kind) = (JobSeq(job), JobKind::Declared);
        self.report(id, Report::JobRequested { job, kind })
    }

    fn request(&mut self, id: ProcessId, bytes: u64) -> Vec<Effect> {
        let (want, bytes) = (BudgetRequestSeq(1), Bytes(bytes));
        self.report(id, Report::BudgetRequested { want, bytes })
    }
}
