//! A world under trial: what must hold of each input, and how it comes to its end.

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Config, Event, Scheduler, SwapOutcome};
use rtswap_policy::units::{Bytes, Nanos};

use crate::world::setting::{CHUNK, MS, best_effort, realtime};
use crate::world::{Agent, Answers, Op, World};

/// The tasks of a trial.
pub(super) const TASKS: std::ops::Range<u32> = 1..6;

pub(super) struct Trial {
    pub(super) world: World,
}

impl Trial {
    /// Three realtime tasks that must swap and a best-effort one, loaded and ready if `prepared`.
    pub(super) fn new(prepared: bool, answers: Answers, config: Config) -> Self {
        let mut world = World::new(config);
        world.agent(TASKS.end);
        let specs = [
            realtime(400, 5, 60, 40),
            realtime(500, 20, 40, 40),
            realtime(300, 5, 50, 20),
            best_effort(),
        ];
        for (id, mut spec) in TASKS.zip(specs).filter(|_| prepared) {
            let bytes = spec.memory.footprint.max(Bytes(30));
            // Registrations come again.
            spec.name = (id % 3).to_string();
            assert!(world.register(id, spec));
            world.fill(id, Agent::default(), bytes.0);
        }
        for id in (1..4).filter(|_| prepared) {
            world.warm(id);
        }
        world.pass(1_000);
        world.answers = answers;
        Self { world }
    }

    /// Does what hands in one input, and checks it. What was refused was never done. Returns whether it
    /// was taken.
    pub(super) fn act(&mut self, act: impl FnOnce(&mut World) -> bool) -> bool {
        let revision = self.world.scheduler.plan_revision();
        let before = self.world.clone();
        let taken = act(&mut self.world);
        let is_same_plan = self.world.scheduler.plan_revision() == revision;
        self.check(&before.scheduler, taken, is_same_plan);
        if taken {
            self.world.settle();
        } else {
            self.world = before;
        }
        taken
    }

    /// A refusal changes nothing, and the plan has another revision if it changes.
    fn check(&self, before: &Scheduler, taken: bool, is_same_plan: bool) {
        let (before, after) = (before.state(), self.world.scheduler.state());
        let last = &self.world.last;
        if !taken {
            let states = [before, after].map(|state| format!("{state:?}"));
            assert_eq!(states[0], states[1], "{last:?} was refused");
        }
        if is_same_plan {
            let [before, after] = [before, after].map(|state| -> Vec<_> {
                let tasks = state.tasks();
                let planned = tasks.filter(|task| task.volume.or(task.next_volume).is_some());
                planned
                    .map(|task| (task.task, task.class, task.volume, task.next_volume))
                    .collect()
            });
            assert_eq!(before, after, "{last:?} changed the plan");
        }
    }

    /// Agents and the shell answer all that they were asked.
    pub(super) fn answer_all(&mut self) {
        while !self.world.budgets.is_empty() {
            // Refused if a lie came before it.
            if !self.act(|world| world.confirm() == Some(true)) {
                self.world.budgets.pop_front();
            }
        }
        while !self.world.stores.is_empty() {
            assert!(self.act(|world| world.pin() == Some(true)));
        }
    }

    /// Everybody does what is asked, once.
    fn cooperate(&mut self, millis: u64) {
        self.world.now = self.world.now + Nanos(millis * MS);
        self.act(|world| world.tell(Event::Timer));
        self.answer_all();
        for id in TASKS {
            if self.world.op(id).is_some() {
                self.swap_on(id);
            }
            if self.world.runs(id) {
                assert!(self.act(|world| world.complete(id)));
            }
        }
    }

    /// An operation goes on, when pipelined by some chunks and as far as the budget allows.
    fn swap_on(&mut self, id: u32) {
        let status = self.world.status(id);
        let usage = status.usage;
        let agent = self.world.agent(id);
        // After a lie, what was told is what counts.
        (agent.usage, agent.budget) = (usage, status.budget);
        let Some(op) = &mut agent.op else {
            return;
        };
        // What was freed meanwhile can no longer leave, nor what no backing store takes any more.
        let most = usage.arena.min(usage.resident + usage.swapped);
        let most = most.min(status.backing).round_down(CHUNK);
        op.target = op.target.min(most);
        let Op { seq, pauses, .. } = *op;
        // A few reports each, whatever the size.
        let quarter = Bytes(usage.swapped.0.abs_diff(op.target.0) / 4).round_up(CHUNK);
        let step = match self.world.config.test {
            Test::Pipelined => quarter.max(CHUNK),
            _ => Bytes::MAX,
        };
        let outcome = Some(SwapOutcome::OutOfMemory);
        let taken = self.act(|world| {
            if pauses > 40 {
                return world.report_swap(id, seq, usage.swapped, outcome);
            }
            let waits = |world: &mut World| world.agent(id).op.is_some_and(|op| op.pauses > pauses);
            world.swap_on(id, step) || waits(world)
        });
        assert!(taken, "{:?}", self.world.last);
    }

    /// From now on everybody is cooperative: what is open must come to its end.
    pub(super) fn close(&mut self) {
        self.act(|world| world.capacity(1 << 60));
        for id in TASKS {
            self.act(|world| world.release(id));
            self.act(|world| world.resume(id));
        }
        for _ in 0..400 {
            self.cooperate(50);
        }
        for (id, agent) in self.world.agents.iter().enumerate() {
            let open = agent.job.is_some() || agent.want.is_some();
            assert!(
                !open || !agent.attached,
                "{id} is forgotten: {agent:?}\n{:#?}",
                self.world.scheduler.state()
            );
        }
    }
}
