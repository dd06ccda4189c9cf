//! What scenes need of the world. Ids are those of tasks, sizes in bytes, times in milliseconds.

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{
    Config, Direction, Event, JobAccount, Phase, Sharing, SwapOutcome, TaskStatus, ViolationKind,
};
use rtswap_policy::task::{TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::world::setting::{MS, config, realtime};
use crate::world::{Agent, World};

impl World {
    pub(crate) fn shared() -> Self {
        let sharing = Sharing::Shared;
        Self::new(Config {
            sharing,
            ..config(100)
        })
    }

    pub(crate) fn pipelined(capacity: u64) -> Self {
        let test = Test::Pipelined;
        Self::new(Config {
            test,
            ..config(capacity)
        })
    }

    /// Two ready realtime tasks of 60 each, of each of which 40 may leave.
    pub(crate) fn two(config: Config) -> Self {
        let mut world = Self::new(config);
        for id in [1, 2] {
            world.load(id, realtime(1_000, 10, 60, 40), 60);
        }
        world.warm(1);
        world.warm(2);
        world.at(5_000);
        world
    }

    /// Registers a task under a name of its own.
    pub(crate) fn admit(&mut self, id: u32, mut spec: TaskSpec) -> bool {
        spec.name += &id.to_string();
        self.register(id, spec)
    }

    /// Registers a task, and a process of it appears with its context of no size.
    pub(crate) fn start(&mut self, id: u32, spec: TaskSpec) {
        assert!(self.admit(id, spec), "{:?}", self.refusals);
        self.join(id);
    }

    pub(crate) fn unregister(&mut self, id: u32) -> bool {
        self.tell(Event::Unregister { task: TaskId(id) })
    }

    pub(crate) fn park(&mut self, id: u32) -> bool {
        self.tell(Event::Park { task: TaskId(id) })
    }

    pub(crate) fn resume(&mut self, id: u32) -> bool {
        self.tell(Event::Resume { task: TaskId(id) })
    }

    pub(crate) fn demote(&mut self, id: u32) -> bool {
        self.tell(Event::Demote { task: TaskId(id) })
    }

    pub(crate) fn release(&mut self, id: u32) -> bool {
        self.tell(Event::Released { task: TaskId(id) })
    }

    pub(crate) fn capacity(&mut self, bytes: u64) -> bool {
        let bytes = Bytes(bytes);
        self.tell(Event::Capacity { bytes })
    }

    pub(crate) fn join(&mut self, id: u32) {
        self.attach(id, Agent::default(), None);
    }

    /// The agent takes memory of its arena within its budget.
    pub(crate) fn allocate(&mut self, id: u32, bytes: u64) {
        let Agent { usage, budget, .. } = self.agent(id);
        usage.resident += Bytes(bytes);
        usage.arena += Bytes(bytes);
        assert!(usage.resident <= *budget, "{id} exceeds its budget");
        self.report_usage(id);
    }

    /// Attaches and loads `bytes`.
    pub(crate) fn fill(&mut self, id: u32, agent: Agent, bytes: u64) {
        self.attach(id, agent, None);
        self.want(id, bytes);
        self.finish_swaps();
        self.allocate(id, bytes);
    }

    /// Registers, attaches and loads `bytes`.
    pub(crate) fn load(&mut self, id: u32, spec: TaskSpec, bytes: u64) {
        assert!(self.admit(id, spec), "{:?}", self.refusals);
        self.fill(id, Agent::default(), bytes);
    }

    /// As [`Self::load`], and makes it ready.
    pub(crate) fn load_ready(&mut self, id: u32, spec: TaskSpec, bytes: u64) {
        self.load(id, spec, bytes);
        self.warm(id);
    }

    /// Makes `id` ready with one realtime job.
    pub(crate) fn warm(&mut self, id: u32) {
        for _ in 0..3 {
            self.request(id);
            self.finish_swaps();
            self.complete(id);
            if self.status(id).phase == Phase::Ready {
                return;
            }
        }
        panic!("{:?}", self.status(id));
    }

    /// An agent that pins late does it now.
    pub(crate) fn pin_now(&mut self, id: u32) {
        self.agent(id).pins_late = false;
        self.settle();
    }

    pub(crate) fn end_swap(&mut self, id: u32, swapped: u64, outcome: SwapOutcome) {
        let op = self.agent(id).op.unwrap();
        self.report_swap(id, op.seq, Bytes(swapped), Some(outcome));
    }

    /// One chunk of the swap operation of `id`. False if it waits for budget.
    pub(crate) fn chunk(&mut self, id: u32) -> bool {
        assert!(self.op(id).is_some());
        self.swap_on(id, self.config.chunk)
    }

    /// Ends swap operations as asked until `id` comes in.
    pub(crate) fn swap_until_in(&mut self, id: u32) {
        while self.op(id) != Some((Direction::In, 0)) {
            assert!(self.swap_any(Bytes::MAX), "{:?}", self.status(id));
        }
    }

    /// Ends every swap operation as asked, and those that follow, chunk by chunk.
    pub(crate) fn finish_swaps(&mut self) {
        while self.swap_any(self.config.chunk) {}
    }

    pub(crate) fn runs_after_swaps(&mut self, id: u32) -> bool {
        self.finish_swaps();
        self.runs(id)
    }

    pub(crate) fn at(&mut self, millis: u64) {
        self.now = Time(millis * MS);
        self.tell(Event::Timer);
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now + Nanos(millis * MS);
        self.tell(Event::Timer);
    }

    pub(crate) fn op(&self, id: u32) -> Option<(Direction, u64)> {
        let op = self.agents.get(id as usize)?.op?;
        Some((op.direction, op.target.0))
    }

    pub(crate) fn status(&self, id: u32) -> TaskStatus {
        self.scheduler.state().task(TaskId(id)).unwrap()
    }

    /// Bytes that are out.
    pub(crate) fn out(&self, id: u32) -> u64 {
        self.status(id).usage.swapped.0
    }

    /// The budget that the agent of `id` has, and how often it was refused one.
    pub(crate) fn budget(&self, id: u32) -> (u64, u32) {
        let agent = &self.agents[id as usize];
        (agent.budget.0, agent.refused)
    }

    /// Of the last job of `id` that ended.
    pub(crate) fn account(&self, id: u32) -> JobAccount {
        self.agents[id as usize].account.unwrap()
    }

    pub(crate) fn violated(&self, id: u32, kind: ViolationKind) -> bool {
        self.violations.contains(&(id, kind))
    }
}
