//! The one model of what surrounds the scheduler: agents in their processes, and the shell between. It
//! has no clock of its own. Cooperative agents answer at once; all else happens when a test says so.
//!
//! `scene` adds what scenes need, `hostile` has agents act at random and lie, and `steady` goes round
//! after round, for what is counted and timed.

mod agent;
mod events;
pub(crate) mod setting;
pub(crate) mod steady;

pub(crate) use agent::{Agent, Op};

use std::collections::VecDeque;
use std::hint::black_box;

use rtswap_policy::scheduler::{
    Command, Config, Event, EventError, JobSeq, Refusal, Scheduler, ViolationKind,
};
use rtswap_policy::task::{TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Time};

/// What is answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    Nothing,
    /// Budgets, by the shell.
    Budgets,
    /// Backing stores and aborts too, by agents that are true: no event of theirs is refused.
    All,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) answers: Answers,
    /// By the ids of their tasks.
    pub(crate) agents: Vec<Agent>,
    /// What the shell has to confirm and what agents have to pin, the oldest first.
    pub(crate) budgets: VecDeque<(TaskId, Bytes)>,
    pub(crate) stores: VecDeque<(TaskId, Bytes)>,
    /// Tasks with a swap operation, the one that goes on next first. Those that have none any more
    /// are passed over.
    moving: VecDeque<TaskId>,
    /// Tasks that run, the oldest first.
    pub(crate) running: VecDeque<TaskId>,
    pub(crate) refusals: Vec<String>,
    pub(crate) violations: Vec<(u32, ViolationKind)>,
    /// The revoked jobs that turned out to have had nothing left.
    pub(crate) whole: Vec<(u32, JobSeq)>,
    /// What a decision costs is the difference of two readings.
    pub(crate) clock: fn() -> u64,
    /// The last event, and the cost of its decision.
    pub(crate) last: Option<(Event, u64)>,
    commands: Vec<Command>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            config,
            now: Time::ZERO,
            answers: Answers::All,
            agents: Vec::new(),
            budgets: VecDeque::new(),
            stores: VecDeque::new(),
            moving: VecDeque::new(),
            running: VecDeque::new(),
            refusals: Vec::new(),
            violations: Vec::new(),
            whole: Vec::new(),
            clock: || 0,
            last: None,
            commands: Vec::new(),
        }
    }

    pub(crate) fn agent(&mut self, id: u32) -> &mut Agent {
        let place = id as usize;
        if place >= self.agents.len() {
            self.agents.resize(place + 1, Agent::default());
        }
        &mut self.agents[place]
    }

    pub(crate) fn runs(&self, id: u32) -> bool {
        self.running.contains(&TaskId(id))
    }

    /// False if the task is refused.
    pub(crate) fn register(&mut self, id: u32, spec: TaskSpec) -> bool {
        let verdict = self.scheduler.register(self.now, TaskId(id), spec);
        self.judged(verdict)
    }

    /// False if the task stays as it was.
    pub(crate) fn change(&mut self, id: u32, spec: &TaskSpec) -> bool {
        let verdict = self.scheduler.change(self.now, TaskId(id), spec);
        self.judged(verdict)
    }

    fn judged(&mut self, verdict: Result<Bytes, Refusal>) -> bool {
        let refusal = verdict.err().map(|refusal| refusal.to_string());
        let admitted = refusal.is_none();
        self.refusals.extend(refusal);
        self.note_all();
        self.settle();
        admitted
    }

    /// One decision: an event is handed in, its commands are taken and the next wake-up is asked for. Then
    /// agents and the shell learn of the commands, but answer nothing.
    pub(crate) fn handle(&mut self, event: Event) -> Result<(), EventError> {
        let before = (self.clock)();
        let verdict = self.scheduler.handle(self.now, event);
        while let Some(command) = self.scheduler.poll_command() {
            self.commands.push(command);
        }
        black_box(self.scheduler.poll_timeout());
        let after = (self.clock)();
        self.last = Some((event, after - before));
        self.note_all();
        verdict
    }

    /// One event, and all answers that follow from it at once. False if it is refused.
    pub(crate) fn tell(&mut self, event: Event) -> bool {
        let taken = self.hand_in(event);
        if taken {
            self.settle();
        }
        taken
    }

    fn hand_in(&mut self, event: Event) -> bool {
        let verdict = self.handle(event);
        if self.answers == Answers::All {
            verdict.clone().unwrap();
        }
        verdict.is_ok()
    }

    /// Answers until nothing is asked.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000 {
            let answered = match self.answers {
                Answers::Nothing => false,
                Answers::Budgets => self.confirm().is_some(),
                Answers::All => self.confirm().or_else(|| self.pin()).is_some() || self.stop(),
            };
            if !answered {
                return;
            }
        }
        panic!("never comes to rest: {:#?}", self.scheduler.state());
    }

    fn note_all(&mut self) {
        while let Some(command) = self.scheduler.poll_command() {
            self.commands.push(command);
        }
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            self.note(&command);
        }
        self.commands = commands;
    }

    fn note(&mut self, command: &Command) {
        match *command {
            Command::SetBudget {
                task,
                bytes,
                answers,
            } => {
                self.budgets.push_back((task, bytes));
                let agent = self.agent(task.0);
                agent.budget = bytes.max(agent.usage.resident);
                if let Some(answer) = answers {
                    assert_eq!(agent.want.take(), Some(answer.want), "was not asked");
                    agent.refused += u32::from(!answer.granted);
                }
            }
            Command::SetBackingStore { task, bytes } => {
                self.stores.push_back((task, bytes));
                self.agent(task.0).asked_stores += 1;
            }
            Command::Swap {
                task,
                op: seq,
                direction,
                target,
            } => {
                self.moving.push_back(task);
                let agent = self.agent(task.0);
                assert!(agent.attached && agent.op.is_none(), "{agent:?}");
                assert!(target <= agent.backing, "{target} of {agent:?}");
                agent.op = Some(Op {
                    seq,
                    direction,
                    target,
                    aborted: false,
                    pauses: 0,
                });
            }
            Command::Abort { task, op: seq } => {
                if let Some(op) = &mut self.agent(task.0).op {
                    op.aborted |= op.seq == seq;
                }
            }
            Command::Grant { task, job } => {
                assert!(!self.runs(task.0), "{task:?} runs already");
                self.running.push_back(task);
                let agent = self.agent(task.0);
                assert_eq!((agent.job, agent.usage.swapped), (Some(job), Bytes::ZERO));
                agent.revoked = false;
            }
            Command::Revoke { task, job } => {
                assert!(self.runs(task.0), "{task:?} does not run");
                let agent = self.agent(task.0);
                assert_eq!(agent.job, Some(job));
                agent.revoked = true;
            }
            Command::Account(account) => {
                let agent = self.agent(account.task.0);
                agent.account = Some(account);
                let former = agent.former.take();
                let ended = former.or_else(|| agent.job.take());
                assert_eq!(ended, Some(account.job));
                if former.is_none() {
                    self.running.retain(|task| *task != account.task);
                }
                let spans = account.queue + account.swap_out + account.swap_in + account.execution;
                assert_eq!(spans, account.ended - account.eligible, "{account:?}");
            }
            Command::Whole { task, job } => self.whole.push((task.0, job)),
            Command::Violation { task, kind, .. } => self.violations.push((task.0, kind)),
        }
    }
}
