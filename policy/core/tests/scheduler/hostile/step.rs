//! One random step: an event that may be true, or a lie.

use proptest::prelude::*;
use rtswap_policy::scheduler::{Event, JobKind, JobSeq, OpenJob, SwapOutcome, SwapSeq, Usage};
use rtswap_policy::task::{TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Nanos};

use super::trial::{TASKS, Trial};
use crate::world::World;
use crate::world::setting::{CHUNK, MS, best_effort, realtime};

/// One step: raw numbers from which an event is made, true or false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    what: u8,
    task: u32,
    number: u32,
    bytes: u64,
    wait: u64,
    choice: u8,
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0_u64..12).prop_map(|chunks| chunks * CHUNK.0),
        2 => 0_u64..130,
        1 => prop_oneof![Just(u64::MAX), Just(1 << 50), Just((1 << 50) + 1)],
    ]
}

prop_compose! {
    pub(super) fn step()(
        what in 0_u8..31,
        (task, number) in (TASKS, 0_u32..4),
        (bytes, wait) in (bytes(), 0_u64..40),
        choice in any::<u8>(),
    ) -> Step {
        Step { what, task, number, bytes, wait, choice }
    }
}

impl Trial {
    pub(super) fn step(&mut self, step: Step) {
        self.world.now = self.world.now + Nanos(step.wait * MS);
        if !step.choice.is_multiple_of(8) {
            self.answer_all();
        }
        self.act(|world| step.act(world));
    }
}

impl Step {
    /// What an agent or the shell does, and whether it is taken.
    fn act(self, world: &mut World) -> bool {
        let (id, number, choice) = (self.task, self.number, self.choice);
        let (task, bytes) = (TaskId(id), Bytes(self.bytes));
        let store = CHUNK.0 * u64::from(number);
        let agent = *world.agent(id);
        let usage = agent.usage;
        let of = |(of, _): &(TaskId, Bytes)| *of == task;
        match self.what {
            0 | 1 => world.register(id, self.spec()),
            2 if number == 0 => world.demote(id),
            2 => world.unregister(id),
            3..=5 => {
                let open = choice.is_multiple_of(3).then_some(OpenJob {
                    job: JobSeq(90 + number),
                    running: choice.is_multiple_of(5),
                    kind: JobKind::Implicit,
                });
                let mut fresh = agent.successor();
                fresh.backing = Bytes(store);
                if choice.is_multiple_of(7) {
                    fresh.usage = holding(bytes, usage.swapped);
                }
                world.attach(id, fresh, open)
            }
            6 => world.detach(id),
            7 if choice.is_multiple_of(2) => world.release(id),
            7 => {
                let resident = usage.resident.saturating_sub(bytes);
                let agent = world.agent(id);
                agent.usage.resident = resident;
                agent.usage.arena = usage.arena.min(resident + usage.swapped);
                agent.backing = agent.backing.min(Bytes(store));
                world.regroup(id, bytes.0)
            }
            8 => world.lose(id),
            9..=12 if choice.is_multiple_of(2) => world.request(id),
            9..=12 => world.request_kind(id, JobKind::Implicit),
            13..=15 if world.runs(id) => world.complete(id),
            13..=15 => {
                let job = JobSeq(number);
                world.tell(Event::JobCompleted { task, job })
            }
            16..=18 => {
                let op = agent.op.map(|op| (op.seq, op.target));
                let (seq, target) = op.unwrap_or((SwapSeq(number), bytes));
                let swapped = if choice < 200 { target } else { bytes };
                let outcome = (choice <= 240).then(|| self.outcome());
                world.report_swap(id, seq, swapped, outcome)
            }
            19 | 20 => world.want(id, bytes.0),
            21 | 22 => {
                let status = world.scheduler.state().task(task);
                let budget = status.map_or(bytes, |status| status.budget);
                let lies = choice > 240;
                let resident = if lies { bytes } else { bytes.min(budget) };
                world.agent(id).usage = holding(resident, usage.swapped);
                world.report_usage(id)
            }
            23 | 24 => {
                let Some(place) = world.budgets.iter().position(of) else {
                    return false;
                };
                let asked = world.budgets.remove(place).map(|(_, bytes)| bytes);
                let truth = asked.max(Some(usage.resident));
                let bytes = truth.filter(|_| choice <= 250).unwrap_or(bytes);
                world.tell(Event::BudgetSet { task, bytes })
            }
            25 => {
                let Some(place) = world.stores.iter().position(of) else {
                    return false;
                };
                let asked = world.stores.remove(place).map(|(_, bytes)| bytes);
                let pinned = if choice < 40 { bytes } else { Bytes::MAX };
                let bytes = world.agent(id).pin(pinned.min(asked.unwrap_or_default()));
                world.tell(Event::Backing { task, bytes })
            }
            27 | 28 if choice % 4 == 1 => world.change(id, &self.spec()),
            27 | 28 if choice.is_multiple_of(2) => world.park(id),
            27 | 28 => world.resume(id),
            26 if choice > 200 => world.tell(Event::HostMemory {
                short: choice.is_multiple_of(2),
            }),
            26 if choice > 180 => world.tell(Event::HostRoom { task }),
            26 => world.capacity(bytes.0.min(1 << 50)),
            _ => world.tell(Event::Timer),
        }
    }

    fn spec(self) -> TaskSpec {
        let number = u64::from(self.number);
        let mut spec = match self.choice % 4 {
            0 => best_effort(),
            1 => realtime(200 + 100 * number, 5, 60, 40),
            2 => realtime(150, 3, self.bytes, self.bytes),
            _ => realtime(400, 20, 50, 10 * number),
        };
        spec.name = (self.task % 3).to_string();
        spec.idle_after = self.choice.is_multiple_of(8).then_some(Nanos(20 * MS));
        spec
    }

    fn outcome(self) -> SwapOutcome {
        match self.choice % 12 {
            0 => SwapOutcome::Aborted,
            1 => SwapOutcome::OutOfMemory,
            2 => SwapOutcome::Undrainable,
            3 => SwapOutcome::Failed,
            _ => SwapOutcome::Done,
        }
    }
}

/// All of it in the arena.
fn holding(resident: Bytes, swapped: Bytes) -> Usage {
    let arena = resident + swapped;
    Usage {
        resident,
        swapped,
        arena,
    }
}
