//! A scheduler, the groups of some tasks, and processes of which everything is known.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{
    Answer, BudgetRequestSeq, Command, Config, Direction, Event, JobKind, JobSeq, OpenJob, Overrun,
    Scheduler, Sharing, SwapOutcome, SwapSeq, TaskStatus, Usage, ViolationKind,
};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use crate::groups::{Effect, Order, ProcessGroup, ProcessId, Report};

pub(super) const CHUNK: u64 = 10;
pub(super) const MS: u64 = 1_000_000;

/// A process of a task.
pub(super) type At = (TaskId, ProcessId);

/// One process, as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) usage: Usage,
    budget: u64,
    backing: u64,
    store_asked: Option<u64>,
    jobs: u32,
    /// The open job, and whether it was granted.
    pub(super) job: Option<(JobSeq, bool)>,
    /// Grants within the task's job.
    grants: u32,
    wants: u32,
    pub(super) want: Option<(BudgetRequestSeq, u64)>,
    pub(super) op: Option<Operation>,
    pub(super) lost: bool,
    /// It has allocated or freed since its last report.
    unreported: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    seq: SwapSeq,
    direction: Direction,
    target: u64,
    credit: u64,
    aborted: bool,
}

impl Agent {
    pub(super) fn runs(&self) -> bool {
        self.job.is_some_and(|(_, granted)| granted)
    }
}

pub(super) struct Task {
    pub(super) group: ProcessGroup,
    realtime: bool,
    /// The scheduler has reported that its job should be over.
    stuck: bool,
    /// What its dead processes might hold, until released.
    left: u64,
    /// An operation has ended or an agent was lost, and the scheduler has not heard of the usage
    /// since.
    unsure: bool,
}

/// How time passes for the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// In leaps; a group that is due is ticked after each.
    Leaps,
    /// Millisecond by millisecond; a group is ticked when it is due.
    OnTime,
    /// Millisecond by millisecond; each group is ticked every time.
    Eager,
}

pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) agents: BTreeMap<At, Agent>,
    /// All effects, with their times.
    pub(super) log: Vec<(u64, Effect)>,
    clock: Clock,
    now: u64,
    processes: u64,
}

fn config(test: Test) -> Config {
    let direction = DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(MS / 10),
        bytes_per_second: u64::MAX,
    };
    Config {
        capacity: Bytes(24 * CHUNK),
        chunk: Bytes(CHUNK),
        swap_cost: SwapCost {
            out: direction,
            in_: direction,
        },
        best_effort_reserve: Bytes(2 * CHUNK),
        drain: Nanos(MS),
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        best_effort_quantum: Nanos(20 * MS),
        objective: Objective::Time,
        test,
        duplex: Ppm::ONE,
    }
}

impl World {
    /// Two best-effort tasks and a realtime one, without a process, admitted by `test`.
    pub(super) fn new(test: Test, clock: Clock) -> Self {
        let mut world = Self {
            scheduler: Scheduler::new(config(test)),
            tasks: BTreeMap::new(),
            agents: BTreeMap::new(),
            log: Vec::new(),
            clock,
            now: 0,
            processes: 0,
        };
        for number in 0..3 {
            world.register(TaskId(number), number == 2);
        }
        world
    }

    fn register(&mut self, task: TaskId, realtime: bool) {
        let timing = Timing {
            period: Nanos(100 * MS),
            deadline: Nanos(100 * MS),
            wcet: Nanos(20 * MS),
        };
        let chunks = |count| Bytes(if realtime { count * CHUNK } else { 0 });
        let spec = TaskSpec {
            name: format!("{task:?}"),
            class: if realtime {
                Class::Realtime(timing)
            } else {
                Class::BestEffort
            },
            memory: MemoryProfile {
                footprint: chunks(12),
                swappable: chunks(10),
            },
        };
        let new = Task {
            group: ProcessGroup::new(task, Bytes(CHUNK), realtime),
            realtime,
            stuck: false,
            left: 0,
            unsure: false,
        };
        self.tasks.insert(task, new);
        let admitted = self.scheduler.register(Time(self.now), task, spec);
        admitted.expect("there is room for three");
    }

    fn task(&mut self, task: TaskId) -> &mut Task {
        self.tasks.get_mut(&task).expect("registered")
    }

    pub(super) fn status(&self, task: TaskId) -> TaskStatus {
        self.scheduler.state().task(task).expect("registered")
    }

    pub(super) fn agent(&mut self, at: At) -> &mut Agent {
        self.agents.get_mut(&at).expect("alive")
    }

    pub(super) fn ids_of(&self, task: TaskId) -> Vec<At> {
        let ids = self.agents.keys().copied();
        ids.filter(|(of, _)| *of == task).collect()
    }

    pub(super) fn agents_of(&self, task: TaskId) -> impl Iterator<Item = &Agent> {
        let agents = self.agents.iter();
        agents.filter_map(move |(at, agent)| (at.0 == task).then_some(agent))
    }

    fn tell(&mut self, event: Event) {
        let said = format!("{event:?}");
        let told = self.scheduler.handle(Time(self.now), event);
        assert_eq!(told, Ok(()), "{said}: {:#?}", self.agents);
        self.carry_on();
    }

    /// As the engine does it: first what the scheduler wants, then what groups conclude.
    fn carry_on(&mut self) {
        loop {
            if let Some(command) = self.scheduler.poll_command() {
                self.obey(&command);
                continue;
            }
            let step = |(task, it): (&TaskId, &mut Task)| it.group.step().then_some(*task);
            let Some(task) = self.tasks.iter_mut().find_map(step) else {
                return;
            };
            self.drain(task);
        }
    }

    fn obey(&mut self, command: &Command) {
        let (Command::Grant { task, .. }
        | Command::Revoke { task, .. }
        | Command::Swap { task, .. }
        | Command::Abort { task, .. }
        | Command::SetBudget { task, .. }
        | Command::SetBackingStore { task, .. }
        | Command::Violation { task, .. }) = *command
        else {
            return;
        };
        let (now, can_leave) = (Time(self.now), self.can_leave(task));
        let it = self.task(task);
        match command {
            Command::Grant { .. } => it.stuck = false,
            Command::Violation { kind, detail, .. } => match kind {
                ViolationKind::OverBudget => panic!("{detail}"),
                ViolationKind::Overrun | ViolationKind::Undrainable => it.stuck = true,
                _ => {}
            },
            _ => {}
        }
        let unsure = it.unsure || it.group.told.stale;
        it.group.obey(now, command);
        let moves = self.drain(task);
        let (target, outward) = match *command {
            Command::Swap {
                target, direction, ..
            } => (target, direction == Direction::Out),
            _ => return,
        };
        if unsure || self.agents_of(task).any(|agent| agent.unreported) {
            return;
        }
        let asked = self.status(task).usage.swapped.0.abs_diff(target.0);
        assert_eq!(moves, asked, "targets add up: {:#?}", self.agents);
        assert!(!outward || asked <= can_leave, "{:#?}", self.agents);
    }

    /// What can leave of a task.
    fn can_leave(&self, task: TaskId) -> u64 {
        let agents = self.agents_of(task);
        let idle = agents.filter(|agent| !agent.lost && agent.op.is_none());
        let each = idle.map(|it| it.usage.arena.0.min(it.backing) - it.usage.swapped.0);
        each.sum()
    }

    /// Takes the effects of a group; how many bytes they order to be moved.
    fn drain(&mut self, task: TaskId) -> u64 {
        let mut moves = 0;
        while let Some(effect) = self.task(task).group.poll() {
            self.log.push((self.now, effect.clone()));
            match effect {
                Effect::Tell(event) => self.hand_in(task, event),
                Effect::Order(id, order) => {
                    if let Order::Swap { target, .. } = order {
                        let swapped = self.agent((task, id)).usage.swapped;
                        moves += swapped.0.abs_diff(target.0);
                    }
                    self.follow((task, id), order);
                }
            }
        }
        moves
    }

    fn hand_in(&mut self, task: TaskId, event: Event) {
        match event {
            Event::SwapEnded { .. } => self.task(task).unsure = true,
            Event::Usage { .. } | Event::Regrouped { .. } => self.task(task).unsure = false,
            // What goes on under `Attach` goes on as best-effort.
            Event::JobCompleted { .. } | Event::Lost { .. } | Event::Attach { .. } => {
                for at in self.ids_of(task) {
                    self.agent(at).grants = 0;
                }
                self.task(task).unsure &= !matches!(event, Event::Attach { .. });
            }
            _ => {}
        }
        let said = format!("{event:?}");
        let told = self.scheduler.handle(Time(self.now), event);
        assert_eq!(told, Ok(()), "{said}: {:#?}", self.agents);
    }

    fn follow(&mut self, at: At, order: Order) {
        let Task {
            realtime, stuck, ..
        } = *self.task(at.0);
        let agent = self.agent(at);
        assert!(!agent.lost, "{order:?} for one that is lost");
        match order {
            Order::Grant { job } => {
                assert_eq!(agent.job, Some((job, false)));
                assert_eq!(agent.usage.swapped, Bytes::ZERO, "runs while it is out");
                agent.job = Some((job, true));
                agent.grants += 1;
                assert!(!realtime || stuck || agent.grants == 1, "twice in one job");
            }
            Order::Revoke { job } => assert_eq!(agent.job, Some((job, true))),
            Order::Swap {
                op: seq,
                direction,
                target: Bytes(target),
                credit: Bytes(credit),
            } => {
                assert!(agent.op.is_none(), "two operations at once");
                assert!(!agent.runs(), "moves while it runs");
                assert!(credit >= target, "{order:?}");
                let aborted = false;
                agent.op = Some(Operation {
                    seq,
                    direction,
                    target,
                    credit,
                    aborted,
                });
            }
            Order::SetCredit { op, credit } => {
                let it = agent.op.as_mut().expect("moves");
                assert_eq!((it.seq, it.direction), (op, Direction::In));
                assert!((it.target..it.credit).contains(&credit.0), "{order:?}");
                it.credit = credit.0;
            }
            Order::Abort { op } => {
                if let Some(it) = agent.op.as_mut().filter(|it| it.seq == op) {
                    it.aborted = true;
                }
            }
            Order::SetBudget { bytes, answers } => {
                let holds = agent.usage.resident.0.min(agent.budget).max(bytes.0);
                agent.budget = holds;
                if let Some(Answer { want, granted }) = answers {
                    let (seq, wanted) = agent.want.take().expect("a request");
                    assert_eq!(seq, want);
                    if granted && wanted <= holds {
                        // It allocates what it asked for at once.
                        let more = wanted.saturating_sub(agent.usage.resident.0);
                        agent.allocate(more);
                    }
                }
                self.task(at.0).group.confirm_budget(at.1, Bytes(holds));
            }
            Order::SetBackingStore { bytes } => agent.store_asked = Some(bytes.0),
        }
    }

    /// What holds after every step.
    fn settle(&mut self, task: TaskId) {
        self.drain(task);
        self.carry_on();
        for (&task, it) in &self.tasks {
            let budgets: u64 = self.agents_of(task).map(|agent| agent.budget).sum();
            let status = self.status(task);
            let (all, most) = (budgets + it.left, status.budget + status.dying);
            assert!(all <= most.0, "{all} of {most}: {:#?}", self.agents);
        }
    }

    fn report(&mut self, at: At, report: Report) {
        let now = Time(self.now);
        let heard = self.task(at.0).group.report(now, at.1, report);
        assert_eq!(heard, Ok(()), "{report:?}: {:#?}", self.agents);
        self.settle(at.0);
    }

    pub(super) fn join(&mut self, task: TaskId) {
        self.processes += 1;
        let at = (task, ProcessId(self.processes));
        self.agents.insert(at, Agent::default());
        self.hello(at);
    }

    /// Says Hello with what it holds, into a new page.
    pub(super) fn hello(&mut self, at: At) {
        let now = Time(self.now);
        let agent = self.agent(at);
        agent.lost = false;
        agent.budget = 0;
        (agent.op, agent.want, agent.store_asked) = (None, None, None);
        let (usage, backing, job) = (agent.usage, Bytes(agent.backing), agent.job);
        let kind = JobKind::Declared;
        let open = job.filter(|(_, granted)| *granted);
        let open = open.map(|(job, running)| OpenJob { job, running, kind });
        let group = &mut self.task(at.0).group;
        let attached = group.attach(now, at.1, usage, backing, open);
        assert_eq!(attached, Ok(()));
        self.settle(at.0);
        if let Some((job, false)) = job {
            self.report(at, Report::JobRequested { job, kind });
        }
    }

    pub(super) fn lose(&mut self, at: At) {
        let now = Time(self.now);
        self.agent(at).lost = true;
        let it = self.task(at.0);
        it.unsure = true;
        it.group.lose(now, at.1);
        self.settle(at.0);
    }

    pub(super) fn die(&mut self, at: At) {
        let now = Time(self.now);
        let dead = self.agents.remove(&at).expect("alive");
        let it = self.task(at.0);
        it.left += dead.budget;
        it.group.leave(now, at.1);
        self.settle(at.0);
    }

    /// The driver has let go of what dead processes have left.
    pub(super) fn release(&mut self, task: TaskId) {
        if self.status(task).dying > Bytes::ZERO {
            self.tell(Event::Released { task });
        }
        self.task(task).left = 0;
    }

    pub(super) fn ask(&mut self, at: At) {
        let agent = self.agent(at);
        if agent.job.is_some() || agent.lost {
            return;
        }
        agent.jobs += 1;
        let (job, kind) = (JobSeq(agent.jobs), JobKind::Declared);
        agent.job = Some((job, false));
        self.report(at, Report::JobRequested { job, kind });
    }

    pub(super) fn complete(&mut self, at: At) {
        let agent = self.agent(at);
        if let Some((job, true)) = agent.job
            && !agent.lost
        {
            agent.job = None;
            self.report(at, Report::JobCompleted { job });
        }
    }

    /// Allocates `chunks` of swappable memory, within the budget or by asking.
    pub(super) fn allocate(&mut self, at: At, chunks: u64) {
        let agent = self.agent(at);
        if agent.lost || agent.want.is_some() {
            return;
        }
        let wanted = agent.usage.resident.0 + chunks * CHUNK;
        if wanted <= agent.budget {
            agent.allocate(chunks * CHUNK);
            return self.tell_usage(at);
        }
        agent.wants += 1;
        let (want, bytes) = (BudgetRequestSeq(agent.wants), Bytes(wanted));
        agent.want = Some((want, wanted));
        self.report(at, Report::BudgetRequested { want, bytes });
    }

    pub(super) fn free(&mut self, at: At, chunks: u64) {
        let agent = self.agent(at);
        let usage = &mut agent.usage;
        let resident = usage.arena.saturating_sub(usage.swapped);
        let bytes = Bytes(chunks * CHUNK).min(resident).min(usage.resident);
        usage.resident -= bytes;
        usage.arena -= bytes;
        agent.unreported = true;
        self.tell_usage(at);
    }

    /// What a look at its page shows: nothing of its usage while it moves.
    pub(super) fn tell_usage(&mut self, at: At) {
        let agent = self.agent(at);
        if !agent.lost && agent.op.is_none() {
            agent.unreported = false;
            let usage = agent.usage;
            self.report(at, Report::Usage(usage));
        }
    }

    /// Moves one chunk, or ends the operation.
    pub(super) fn swap_step(&mut self, at: At) {
        let agent = self.agent(at);
        let Some(it) = agent.op.filter(|_| !agent.lost) else {
            return;
        };
        let (usage, op) = (&mut agent.usage, it.seq);
        let swapped = usage.swapped.0;
        let outcome = match it.direction {
            _ if it.aborted => Some(SwapOutcome::Aborted),
            Direction::Out if swapped >= it.target => Some(SwapOutcome::Done),
            Direction::In if swapped <= it.target => Some(SwapOutcome::Done),
            Direction::Out => {
                let resident = usage.arena.0 - swapped;
                let can = swapped + CHUNK <= agent.backing && resident >= CHUNK;
                (!can).then_some(SwapOutcome::Failed)
            }
            Direction::In if swapped - CHUNK < it.credit => return,
            Direction::In => {
                let can = usage.resident.0 + CHUNK <= agent.budget;
                (!can).then_some(SwapOutcome::OutOfMemory)
            }
        };
        if let Some(outcome) = outcome {
            agent.op = None;
            let end = Report::SwapEnded {
                op,
                swapped: Bytes(swapped),
                took: Nanos(MS),
                outcome,
            };
            self.report(at, end);
            return self.tell_usage(at);
        }
        let (from, to) = match it.direction {
            Direction::Out => (&mut usage.resident, &mut usage.swapped),
            Direction::In => (&mut usage.swapped, &mut usage.resident),
        };
        *from -= Bytes(CHUNK);
        *to += Bytes(CHUNK);
        let swapped = usage.swapped;
        self.report(at, Report::SwapProgress { op, swapped });
    }

    /// Pins what was asked for, at most `most`.
    pub(super) fn pin(&mut self, at: At, most: u64) {
        let agent = self.agent(at);
        if let Some(asked) = agent.store_asked.take_if(|_| !agent.lost) {
            agent.backing = agent.backing.max(asked.min(most));
            let backing = Report::Backing(Bytes(agent.backing));
            self.report(at, backing);
        }
    }

    /// The capacity is so many chunks now.
    pub(super) fn set_capacity(&mut self, chunks: u64) {
        let bytes = Bytes(chunks * CHUNK);
        self.tell(Event::Capacity { bytes });
    }

    pub(super) fn pass(&mut self, ms: u64) {
        match self.clock {
            Clock::Leaps => self.leap(ms),
            Clock::OnTime | Clock::Eager => (0..ms).for_each(|_| self.leap(1)),
        }
    }

    fn leap(&mut self, ms: u64) {
        self.now += ms * MS;
        let now = Time(self.now);
        while let Some(due) = self.scheduler.poll_timeout()
            && due <= now
        {
            self.tell(Event::Timer);
            if self.scheduler.poll_timeout() == Some(due) {
                break;
            }
        }
        for number in 0..3 {
            let eager = self.clock == Clock::Eager;
            let group = &mut self.task(TaskId(number)).group;
            if eager || group.poll_timeout().is_some_and(|due| due <= now) {
                group.tick(now);
                self.settle(TaskId(number));
            }
            let due = self.task(TaskId(number)).group.poll_timeout();
            assert!(due.is_none_or(|due| due > now), "due again at once");
        }
    }
}

impl Agent {
    fn allocate(&mut self, bytes: u64) {
        self.usage.resident += Bytes(bytes);
        self.usage.arena += Bytes(bytes);
        self.unreported = true;
    }
}
