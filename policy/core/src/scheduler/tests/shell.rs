//! A shell with cooperative agents and no clock of its own: budgets and backing stores are
//! answered at once, swaps and jobs end when the test says so.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::*;
use crate::admission::Test;
use crate::assign::Objective;
use crate::cost::{DirectionCost, SwapCost};
use crate::task::{Class, MemoryProfile, TaskSpec, Timing};
use crate::units::{Bytes, Nanos, Ppm, Time};

/// δ of the tests, and the unit of their sizes.
pub(super) const CHUNK: u64 = 10;
/// The unit of their times.
pub(super) const MS: u64 = 1_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) usage: Usage,
    pub(super) budget: u64,
    pub(super) backing: u64,
    /// The most that it can pin.
    pub(super) pinnable: Option<u64>,
    /// It never unpins.
    pub(super) keeps: bool,
    /// It answers for its backing store only when the test says so.
    pub(super) pins_late: bool,
    pub(super) late: Option<u64>,
    /// How often it was asked for a backing store.
    pub(super) asked_volumes: u32,
    pub(super) op: Option<(SwapSeq, Direction, Bytes)>,
    pub(super) granted: Option<JobSeq>,
    pub(super) revoked: bool,
    pub(super) jobs: u32,
    pub(super) wants: u32,
    pub(super) refused: u32,
}

pub(super) struct Shell {
    pub(super) scheduler: Scheduler,
    pub(super) now: u64,
    pub(super) agents: BTreeMap<u32, Agent>,
    pub(super) accounts: Vec<JobAccount>,
    pub(super) violations: Vec<(u32, ViolationKind)>,
    pub(super) refusals: Vec<String>,
}

pub(super) fn config(capacity: u64) -> Config {
    let direction = DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(MS),
        bytes_per_second: u64::MAX,
    };
    Config {
        capacity: Bytes(capacity),
        chunk: Bytes(CHUNK),
        swap_cost: SwapCost {
            out: direction,
            in_: direction,
        },
        best_effort_reserve: Bytes::ZERO,
        drain: Nanos(MS),
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        best_effort_quantum: Nanos(100 * MS),
        objective: Objective::Time,
        test: Test::Theorem1,
        duplex: Ppm::ONE,
    }
}

pub(super) fn realtime(period: u64, wcet: u64, footprint: u64, swappable: u64) -> TaskSpec {
    TaskSpec {
        name: "realtime".to_string(),
        class: Class::Realtime(Timing {
            period: Nanos(period * MS),
            deadline: Nanos(period * MS),
            wcet: Nanos(wcet * MS),
        }),
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(swappable),
        },
    }
}

pub(super) fn best_effort() -> TaskSpec {
    TaskSpec {
        name: "best-effort".to_string(),
        class: Class::BestEffort,
        memory: MemoryProfile::default(),
    }
}

impl Shell {
    pub(super) fn new(config: Config) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            now: 0,
            agents: BTreeMap::new(),
            accounts: Vec::new(),
            violations: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// One event, and all that follows from it without anybody else.
    pub(super) fn tell(&mut self, event: Event) {
        self.scheduler.handle(Time(self.now), event).unwrap();
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..1_000 {
            let Some(command) = self.scheduler.poll_command() else {
                return;
            };
            self.obey(&command);
        }
        panic!("never comes to rest: {:#?}", self.scheduler.state());
    }

    fn obey(&mut self, command: &Command) {
        match *command {
            Command::SetBudget {
                task,
                bytes,
                answers,
            } => {
                let agent = self.agents.get_mut(&task.0).unwrap();
                agent.refused += u32::from(answers.is_some_and(|answer| !answer.granted));
                agent.budget = bytes.0.max(agent.usage.resident.0);
                let bytes = Bytes(agent.budget);
                let set = Event::BudgetSet { task, bytes };
                self.scheduler.handle(Time(self.now), set).unwrap();
            }
            Command::SetBackingStore { task, bytes } => {
                let agent = self.agents.get_mut(&task.0).unwrap();
                agent.asked_volumes += 1;
                assert!(agent.asked_volumes < 100, "asked for ever");
                if agent.pins_late {
                    agent.late = Some(bytes.0);
                } else {
                    self.pin(task.0, bytes.0);
                }
            }
            Command::Swap {
                task,
                op,
                direction,
                target,
            } => {
                let agent = self.agents.get_mut(&task.0).unwrap();
                assert_eq!(agent.op, None);
                assert!(target.0 <= agent.backing);
                agent.op = Some((op, direction, target));
            }
            Command::Abort { task, op } => {
                let agent = &self.agents[&task.0];
                if agent.op.is_some_and(|(seq, ..)| seq == op) {
                    let swapped = agent.usage.swapped;
                    self.end_swap(task.0, swapped, SwapOutcome::Aborted);
                }
            }
            Command::Grant { task, job } => {
                let agent = self.agents.get_mut(&task.0).unwrap();
                assert_eq!(agent.usage.swapped, Bytes::ZERO);
                agent.granted = Some(job);
                agent.revoked = false;
            }
            Command::Revoke { task, .. } => {
                self.agents.get_mut(&task.0).unwrap().revoked = true;
            }
            Command::Account(account) => self.accounts.push(account),
            Command::Violation { task, kind, .. } => self.violations.push((task.0, kind)),
        }
    }

    fn pin(&mut self, id: u32, bytes: u64) {
        let agent = self.agents.get_mut(&id).unwrap();
        let least = if agent.keeps { agent.backing } else { 0 };
        agent.backing = bytes.min(agent.pinnable.unwrap_or(u64::MAX)).max(least);
        let backing = Event::Backing {
            task: TaskId(id),
            bytes: Bytes(agent.backing),
        };
        self.scheduler.handle(Time(self.now), backing).unwrap();
    }

    /// An agent that pins late does it now.
    pub(super) fn pin_late(&mut self, id: u32) {
        let bytes = self.agents.get_mut(&id).unwrap().late.take().unwrap();
        self.pin(id, bytes);
        self.settle();
    }

    pub(super) fn register(&mut self, id: u32, mut spec: TaskSpec) {
        spec.name += &id.to_string();
        self.register_as(id, spec);
    }

    /// As `register`, under the spec's own name.
    pub(super) fn register_as(&mut self, id: u32, spec: TaskSpec) {
        let verdict = self.scheduler.register(Time(self.now), TaskId(id), spec);
        if let Err(refusal) = verdict {
            self.refusals.push(refusal.to_string());
        }
        self.settle();
    }

    /// A process of the task appears, with its context of no size.
    pub(super) fn attach(&mut self, id: u32) {
        self.attach_as(id, Agent::default());
    }

    pub(super) fn attach_as(&mut self, id: u32, agent: Agent) {
        self.agents.insert(id, agent);
        self.tell(Event::Attach {
            task: TaskId(id),
            usage: Usage::default(),
            backing: Bytes::ZERO,
            open: None,
        });
    }

    pub(super) fn want(&mut self, id: u32, bytes: u64) {
        let agent = self.agents.get_mut(&id).unwrap();
        agent.wants += 1;
        let want = BudgetRequestSeq(agent.wants);
        self.tell(Event::BudgetRequested {
            task: TaskId(id),
            want,
            bytes: Bytes(bytes),
        });
    }

    /// The agent takes memory of its arena within its budget.
    pub(super) fn allocate(&mut self, id: u32, bytes: u64) {
        let agent = self.agents.get_mut(&id).unwrap();
        agent.usage.resident += Bytes(bytes);
        agent.usage.arena += Bytes(bytes);
        assert!(
            agent.usage.resident.0 <= agent.budget,
            "{id} exceeds its budget"
        );
        let usage = agent.usage;
        self.tell(Event::Usage {
            task: TaskId(id),
            usage,
        });
    }

    /// Registers, attaches and loads `bytes`.
    pub(super) fn load(&mut self, id: u32, spec: TaskSpec, bytes: u64) {
        self.register(id, spec);
        self.attach(id);
        self.want(id, bytes);
        self.finish_swaps();
        self.allocate(id, bytes);
    }

    pub(super) fn request(&mut self, id: u32) {
        self.request_kind(id, JobKind::Declared);
    }

    pub(super) fn request_kind(&mut self, id: u32, kind: JobKind) {
        let agent = self.agents.get_mut(&id).unwrap();
        agent.jobs += 1;
        let job = JobSeq(agent.jobs);
        self.tell(Event::JobRequested {
            task: TaskId(id),
            job,
            kind,
        });
    }

    pub(super) fn complete(&mut self, id: u32) {
        let job = self.agents.get_mut(&id).unwrap().granted.take().unwrap();
        self.tell(Event::JobCompleted {
            task: TaskId(id),
            job,
        });
    }

    pub(super) fn end_swap(&mut self, id: u32, swapped: Bytes, outcome: SwapOutcome) {
        let agent = self.agents.get_mut(&id).unwrap();
        let (op, ..) = agent.op.take().unwrap();
        let usage = &mut agent.usage;
        usage.resident = usage.resident + usage.swapped - swapped;
        usage.swapped = swapped;
        assert!(
            usage.resident.0 <= agent.budget,
            "{id} swapped in beyond its budget"
        );
        self.tell(Event::SwapEnded {
            task: TaskId(id),
            op,
            swapped,
            took: Nanos::ZERO,
            outcome,
        });
    }

    /// One chunk of the swap operation of `id`, as an agent in a pipelined region reports it.
    /// False if it waits for budget.
    pub(super) fn chunk(&mut self, id: u32) -> bool {
        let agent = self.agents.get_mut(&id).unwrap();
        let (op, direction, target) = agent.op.unwrap();
        let usage = &mut agent.usage;
        let swapped = match direction {
            Direction::Out => usage.swapped + Bytes(CHUNK),
            Direction::In if usage.resident.0 + CHUNK > agent.budget => return false,
            Direction::In => usage.swapped - Bytes(CHUNK),
        };
        if swapped == target {
            self.end_swap(id, swapped, SwapOutcome::Done);
            return true;
        }
        usage.resident = usage.resident + usage.swapped - swapped;
        usage.swapped = swapped;
        let task = TaskId(id);
        self.tell(Event::SwapProgress { task, op, swapped });
        true
    }

    /// Ends every swap operation as asked, and those that follow.
    pub(super) fn finish_swaps(&mut self) {
        if self.scheduler.pipelined() {
            let moves = |shell: &mut Self| {
                let ids: Vec<u32> = shell.agents.keys().copied().collect();
                let mut ids = ids.into_iter();
                ids.any(|id| shell.agents[&id].op.is_some() && shell.chunk(id))
            };
            while moves(self) {}
            return;
        }
        while self.end_first_swap() {}
    }

    /// Ends one swap operation as asked. False if there is none.
    pub(super) fn end_first_swap(&mut self) -> bool {
        let mut ops = self.agents.iter();
        let first = ops.find_map(|(id, agent)| agent.op.map(|(_, _, target)| (*id, target)));
        if let Some((id, target)) = first {
            self.end_swap(id, target, SwapOutcome::Done);
        }
        first.is_some()
    }

    pub(super) fn at(&mut self, millis: u64) {
        self.now = millis * MS;
        self.tell(Event::Timer);
    }

    pub(super) fn runs(&self, id: u32) -> bool {
        self.agents[&id].granted.is_some()
    }

    pub(super) fn op(&self, id: u32) -> Option<(Direction, u64)> {
        let (_, direction, target) = self.agents[&id].op?;
        Some((direction, target.0))
    }

    pub(super) fn status(&self, id: u32) -> TaskStatus {
        self.scheduler.state().task(TaskId(id)).unwrap()
    }

    /// Makes `id` ready with one realtime job.
    pub(super) fn warm(&mut self, id: u32) {
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
}
