//! A scheduler, the members of some tasks, and agents of whom everything is known.

use std::collections::BTreeMap;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{
    Answer, Command, Config, Direction, Event, JobKind, JobSeq, OpenJob, Overrun, Scheduler,
    Sharing, SwapOutcome, SwapSeq, Usage, ViolationKind, WantSeq,
};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use crate::members::{Effect, MemberId, Members};

pub(super) const CHUNK: u64 = 10;
pub(super) const MS: u64 = 1_000_000;
pub(super) const CAPACITY: u64 = 24 * CHUNK;

/// One process, as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) usage: Usage,
    pub(super) budget: u64,
    pub(super) backing: u64,
    pub(super) store_asked: Option<u64>,
    pub(super) jobs: u32,
    /// Open, and whether it was granted.
    pub(super) job: Option<(JobSeq, bool)>,
    pub(super) revoked: bool,
    /// Grants in the task's job.
    pub(super) grants: u32,
    pub(super) wants: u32,
    pub(super) want: Option<(WantSeq, u64)>,
    pub(super) refused: u32,
    pub(super) op: Option<(SwapSeq, Direction, u64)>,
    /// How low an operation inward may bring what is swapped for now.
    pub(super) credit: u64,
    pub(super) aborted: bool,
    pub(super) lost: bool,
    /// It has allocated or freed since its last report.
    pub(super) unreported: bool,
}

/// One task.
pub(super) struct Team {
    pub(super) members: Members,
    pub(super) realtime: bool,
    pub(super) agents: BTreeMap<MemberId, Agent>,
    /// It was said that its job should be over.
    pub(super) stuck: bool,
    /// What its dead might hold, until released.
    pub(super) left: u64,
    /// An operation has ended or an agent was lost, and the scheduler has not heard of the usage
    /// since.
    pub(super) unsure: bool,
}

pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) now: u64,
    pub(super) teams: BTreeMap<TaskId, Team>,
    next: u64,
}

fn config(test: Test) -> Config {
    let direction = DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(MS / 10),
        bytes_per_second: u64::MAX,
    };
    Config {
        capacity: Bytes(CAPACITY),
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
    pub(super) fn new(test: Test) -> Self {
        let mut world = Self {
            scheduler: Scheduler::new(config(test)),
            now: 0,
            teams: BTreeMap::new(),
            next: 0,
        };
        for number in 0..3 {
            let (task, realtime) = (TaskId(number), number == 2);
            let class = if realtime {
                Class::Realtime(Timing {
                    period: Nanos(100 * MS),
                    deadline: Nanos(100 * MS),
                    wcet: Nanos(20 * MS),
                })
            } else {
                Class::BestEffort
            };
            let memory = MemoryProfile {
                footprint: Bytes(if realtime { 12 * CHUNK } else { 0 }),
                swappable: Bytes(if realtime { 10 * CHUNK } else { 0 }),
            };
            let team = Team {
                members: Members::new(task, Bytes(CHUNK), realtime),
                realtime,
                agents: BTreeMap::new(),
                stuck: false,
                left: 0,
                unsure: false,
            };
            world.teams.insert(task, team);
            let name = format!("task {number}");
            let spec = TaskSpec {
                name,
                class,
                memory,
            };
            world
                .scheduler
                .register(Time(world.now), task, spec)
                .unwrap();
            world.carry_on();
        }
        world
    }

    fn team(&mut self, task: TaskId) -> &mut Team {
        self.teams.get_mut(&task).unwrap()
    }

    pub(super) fn agent(&mut self, task: TaskId, id: MemberId) -> &mut Agent {
        self.team(task).agents.get_mut(&id).unwrap()
    }

    fn tell(&mut self, event: Event) {
        let said = format!("{event:?}");
        let told = self.scheduler.handle(Time(self.now), event);
        assert_eq!(told, Ok(()), "{said} was refused");
        self.carry_on();
    }

    /// As the shell does it: what the scheduler wants first, then what members conclude.
    fn carry_on(&mut self) {
        loop {
            if let Some(command) = self.scheduler.poll_command() {
                self.obey(&command);
                continue;
            }
            let step = |(task, team): (&TaskId, &mut Team)| team.members.step().then_some(*task);
            let Some(task) = self.teams.iter_mut().find_map(step) else {
                return;
            };
            self.drain(task);
        }
    }

    fn obey(&mut self, command: &Command) {
        let task = match command {
            Command::Grant { task, .. }
            | Command::Revoke { task, .. }
            | Command::Swap { task, .. }
            | Command::Abort { task, .. }
            | Command::SetBudget { task, .. }
            | Command::SetVolume { task, .. }
            | Command::Violation { task, .. } => *task,
            Command::Account(_) => return,
        };
        self.note(task, command);
        let (now, most) = (Time(self.now), self.can_leave(task));
        let untold = self.team(task).members.usage_changed;
        self.team(task).members.obey(now, command);
        let moves = self.drain(task);
        if let Command::Swap {
            target, direction, ..
        } = *command
        {
            let status = self.scheduler.state().task(task).expect("registered");
            let asked = status.usage.swapped.0.abs_diff(target.0);
            let agents = &self.teams[&task].agents;
            let unsure = self.teams[&task].unsure;
            let unsure = unsure || untold || agents.values().any(|agent| agent.unreported);
            assert!(unsure || moves == asked, "{moves} of {asked}: {agents:#?}");
            let outward = direction == Direction::Out;
            assert!(
                unsure || !outward || asked <= most,
                "{asked} of {most}: {agents:#?}"
            );
        }
    }

    /// Takes the effects of a task's members. How much is to be moved.
    fn drain(&mut self, task: TaskId) -> u64 {
        let mut moves = 0;
        while let Some(effect) = self.team(task).members.poll() {
            moves += self.moves(task, &effect);
            self.take(task, effect);
        }
        moves
    }

    fn note(&mut self, task: TaskId, command: &Command) {
        let team = self.team(task);
        match command {
            Command::Grant { .. } => team.stuck = false,
            Command::Violation { kind, detail, .. } => match kind {
                ViolationKind::OverBudget => panic!("{detail}"),
                ViolationKind::Overrun | ViolationKind::Undrainable => team.stuck = true,
                _ => {}
            },
            _ => {}
        }
    }

    /// What can leave of a task.
    fn can_leave(&self, task: TaskId) -> u64 {
        let agents = self.teams[&task].agents.values();
        let talked = agents.filter(|agent| !agent.lost && agent.op.is_none());
        let each = talked.map(|agent| {
            let most = agent.usage.arena.0.min(agent.backing);
            most - agent.usage.swapped.0
        });
        each.sum()
    }

    /// What an agent is asked to move.
    fn moves(&self, task: TaskId, effect: &Effect) -> u64 {
        match effect {
            Effect::Do(id, Command::Swap { target, .. }) => {
                let swapped = self.teams[&task].agents[id].usage.swapped;
                swapped.0.abs_diff(target.0)
            }
            _ => 0,
        }
    }

    /// What the members say and want, as the shell does it.
    pub(super) fn settle(&mut self, task: TaskId) {
        self.drain(task);
        self.carry_on();
        self.check();
    }

    fn take(&mut self, task: TaskId, effect: Effect) {
        match effect {
            Effect::Tell(event) => {
                let team = self.team(task);
                team.unsure |= matches!(event, Event::SwapEnded { .. });
                // What goes on under `Attach` goes on as best-effort.
                if matches!(
                    event,
                    Event::JobCompleted { .. } | Event::Lost { .. } | Event::Attach { .. }
                ) {
                    team.agents.values_mut().for_each(|agent| agent.grants = 0);
                }
                team.unsure &= !matches!(
                    event,
                    Event::Usage { .. } | Event::Regrouped { .. } | Event::Attach { .. }
                );
                let said = format!("{event:?}");
                let told = self.scheduler.handle(Time(self.now), event);
                let agents = &self.teams[&task].agents;
                assert_eq!(told, Ok(()), "{said} was refused: {agents:#?}");
            }
            Effect::Do(id, command) => self.follow(task, id, &command),
        }
    }

    fn follow(&mut self, task: TaskId, id: MemberId, command: &Command) {
        let team = self.team(task);
        let (realtime, stuck) = (team.realtime, team.stuck);
        let credit = |budget| team.members.credit(id, budget).0;
        let agent = team.agents.get_mut(&id).expect("who is told is there");
        assert!(!agent.lost, "{command:?} for one that is lost");
        match *command {
            Command::Grant { job, .. } => {
                assert_eq!(agent.job, Some((job, false)));
                assert_eq!(agent.usage.swapped, Bytes::ZERO, "runs while it is out");
                agent.job = Some((job, true));
                agent.revoked = false;
                agent.grants += 1;
                assert!(!realtime || stuck || agent.grants == 1, "twice in one job");
            }
            Command::Revoke { job, .. } => {
                assert_eq!(agent.job, Some((job, true)));
                agent.revoked = true;
            }
            Command::Swap {
                op,
                direction,
                target,
                ..
            } => {
                assert!(agent.op.is_none(), "two operations at once");
                assert!(
                    !agent.job.is_some_and(|(_, granted)| granted),
                    "moves while it runs"
                );
                agent.op = Some((op, direction, target.0));
                agent.credit = credit(Bytes(agent.budget));
                agent.aborted = false;
            }
            Command::Abort { op, .. } => {
                agent.aborted |= agent.op.is_some_and(|(seq, ..)| seq == op);
            }
            Command::SetBudget { bytes, answers, .. } => {
                let holds = agent.usage.resident.0.min(agent.budget).max(bytes.0);
                agent.budget = holds;
                agent.credit = agent.credit.min(credit(Bytes(holds)));
                if let Some(Answer { want, granted }) = answers {
                    let (seq, wanted) = agent.want.take().expect("a question");
                    assert_eq!(seq, want);
                    if !granted {
                        agent.refused += 1;
                    } else if wanted <= holds {
                        // It allocates what it asked for at once.
                        let more = wanted.saturating_sub(agent.usage.resident.0);
                        agent.usage.resident += Bytes(more);
                        agent.usage.arena += Bytes(more);
                        agent.unreported = true;
                    }
                }
                self.team(task).members.holds(id, Bytes(holds));
            }
            Command::SetVolume { bytes, .. } => agent.store_asked = Some(bytes.0),
            ref other => panic!("{other:?} is for no agent"),
        }
    }

    /// What holds after every step.
    fn check(&self) {
        for (task, team) in &self.teams {
            let budgets: u64 = team.agents.values().map(|agent| agent.budget).sum();
            let status = self.scheduler.state().task(*task).expect("registered");
            let most = status.budget + status.dying;
            let all = Bytes(budgets + team.left);
            assert!(all <= most, "{all} of {most}: {:#?}", team.agents);
        }
    }

    pub(super) fn hear(&mut self, task: TaskId, id: MemberId, event: &Event) {
        let now = Time(self.now);
        let said = format!("{event:?}");
        let heard = self.team(task).members.hear(now, id, event);
        assert_eq!(heard, Ok(()), "{said}: {:#?}", self.teams[&task].agents);
        self.settle(task);
    }

    pub(super) fn join(&mut self, task: TaskId) {
        self.next += 1;
        let id = MemberId(self.next);
        self.team(task).agents.insert(id, Agent::default());
        self.hello(task, id);
    }

    /// Says Hello with what it holds, into a new page.
    pub(super) fn hello(&mut self, task: TaskId, id: MemberId) {
        let now = Time(self.now);
        let agent = self.agent(task, id);
        agent.lost = false;
        agent.budget = 0;
        agent.op = None;
        agent.want = None;
        agent.store_asked = None;
        agent.revoked = false;
        let (usage, backing) = (agent.usage, Bytes(agent.backing));
        let open = agent.job.filter(|(_, granted)| *granted);
        let waiting = agent.job.filter(|(_, granted)| !*granted);
        let open = open.map(|(job, _)| OpenJob {
            job,
            running: true,
            kind: JobKind::Declared,
        });
        let attached = self
            .team(task)
            .members
            .attach(now, id, usage, backing, open);
        assert_eq!(attached, Ok(()));
        self.settle(task);
        if let Some((job, _)) = waiting {
            let kind = JobKind::Declared;
            self.hear(task, id, &Event::JobRequested { task, job, kind });
        }
    }

    pub(super) fn lose(&mut self, task: TaskId, id: MemberId) {
        let now = Time(self.now);
        self.agent(task, id).lost = true;
        let team = self.team(task);
        team.unsure = true;
        team.members.lose(now, id);
        self.settle(task);
    }

    pub(super) fn die(&mut self, task: TaskId, id: MemberId) {
        let now = Time(self.now);
        let team = self.team(task);
        let dead = team.agents.remove(&id);
        team.left += dead.map_or(0, |agent| agent.budget);
        team.members.leave(now, id);
        self.settle(task);
    }

    /// The driver has let go of what the dead have left.
    pub(super) fn release(&mut self, task: TaskId) {
        let status = self.scheduler.state().task(task).expect("registered");
        if status.dying > Bytes::ZERO {
            self.tell(Event::Released { task });
        }
        self.team(task).left = 0;
    }

    pub(super) fn ask(&mut self, task: TaskId, id: MemberId) {
        let agent = self.agent(task, id);
        if agent.job.is_some() || agent.lost {
            return;
        }
        agent.jobs += 1;
        let job = JobSeq(agent.jobs);
        agent.job = Some((job, false));
        let kind = JobKind::Declared;
        self.hear(task, id, &Event::JobRequested { task, job, kind });
    }

    pub(super) fn complete(&mut self, task: TaskId, id: MemberId) {
        let agent = self.agent(task, id);
        if let Some((job, true)) = agent.job
            && !agent.lost
        {
            agent.job = None;
            self.hear(task, id, &Event::JobCompleted { task, job });
        }
    }

    /// Allocates `chunks`, of swappable memory or not, within the budget or by asking.
    pub(super) fn allocate(&mut self, task: TaskId, id: MemberId, chunks: u64) {
        let agent = self.agent(task, id);
        if agent.lost || agent.want.is_some() {
            return;
        }
        let wanted = agent.usage.resident.0 + chunks * CHUNK;
        if wanted <= agent.budget {
            agent.usage.resident = Bytes(wanted);
            agent.usage.arena += Bytes(chunks * CHUNK);
            agent.unreported = true;
            return self.report(task, id);
        }
        agent.wants += 1;
        let want = WantSeq(agent.wants);
        agent.want = Some((want, wanted));
        let bytes = Bytes(wanted);
        self.hear(task, id, &Event::Want { task, want, bytes });
    }

    pub(super) fn free(&mut self, task: TaskId, id: MemberId, chunks: u64) {
        let agent = self.agent(task, id);
        let resident = agent.usage.arena.saturating_sub(agent.usage.swapped);
        let bytes = Bytes(chunks * CHUNK)
            .min(resident)
            .min(agent.usage.resident);
        agent.usage.resident = agent.usage.resident.saturating_sub(bytes);
        agent.usage.arena = agent.usage.arena.saturating_sub(bytes);
        agent.unreported = true;
        self.report(task, id);
    }

    /// What a look at its page shows: nothing of its usage while it moves.
    pub(super) fn report(&mut self, task: TaskId, id: MemberId) {
        let agent = self.agent(task, id);
        if !agent.lost && agent.op.is_none() {
            agent.unreported = false;
            let usage = agent.usage;
            self.hear(task, id, &Event::Usage { task, usage });
        }
    }

    /// Moves one chunk, or says that it is done.
    pub(super) fn swap_step(&mut self, task: TaskId, id: MemberId) {
        let agent = self.agent(task, id);
        let Some((op, direction, target)) = agent.op.filter(|_| !agent.lost) else {
            return;
        };
        let swapped = agent.usage.swapped.0;
        let outcome = if agent.aborted {
            Some(SwapOutcome::Aborted)
        } else {
            match direction {
                Direction::Out if swapped >= target => Some(SwapOutcome::Done),
                Direction::In if swapped <= target => Some(SwapOutcome::Done),
                Direction::Out => {
                    let resident = agent.usage.arena.0 - swapped;
                    let can = swapped + CHUNK <= agent.backing && resident >= CHUNK;
                    (!can).then_some(SwapOutcome::Failed)
                }
                Direction::In if swapped - CHUNK < agent.credit => return,
                Direction::In => {
                    let can = agent.usage.resident.0 + CHUNK <= agent.budget;
                    (!can).then_some(SwapOutcome::OutOfMemory)
                }
            }
        };
        let usage = &mut agent.usage;
        match (outcome, direction) {
            (Some(_), _) => agent.op = None,
            (None, Direction::Out) => {
                usage.resident = Bytes(usage.resident.0 - CHUNK);
                usage.swapped += Bytes(CHUNK);
            }
            (None, Direction::In) => {
                usage.resident += Bytes(CHUNK);
                usage.swapped = Bytes(usage.swapped.0 - CHUNK);
            }
        }
        let swapped = agent.usage.swapped;
        let event = match outcome {
            Some(outcome) => Event::SwapEnded {
                task,
                op,
                swapped,
                took: Nanos(MS),
                outcome,
            },
            None => Event::SwapProgress { task, op, swapped },
        };
        self.hear(task, id, &event);
        if outcome.is_some() {
            self.report(task, id);
        }
    }

    /// Pins what was asked for, at most `most`.
    pub(super) fn pin(&mut self, task: TaskId, id: MemberId, most: u64) {
        let agent = self.agent(task, id);
        if let Some(asked) = agent.store_asked.take_if(|_| !agent.lost) {
            let bytes = Bytes(agent.backing.max(asked.min(most)));
            agent.backing = bytes.0;
            self.hear(task, id, &Event::Backing { task, bytes });
        }
    }

    /// The capacity is so many chunks now.
    pub(super) fn capacity(&mut self, chunks: u64) {
        let bytes = Bytes(chunks * CHUNK);
        self.tell(Event::Capacity { bytes });
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now += ms * MS;
        while let Some(due) = self.scheduler.poll_timeout()
            && due.0 <= self.now
        {
            self.tell(Event::Timer);
            if self.scheduler.poll_timeout() == Some(due) {
                break;
            }
        }
        for task in self.teams.keys().copied().collect::<Vec<_>>() {
            let now = Time(self.now);
            self.team(task).members.tick(now);
            self.settle(task);
        }
    }
}
