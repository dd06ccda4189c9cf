//! The processes of one task on one GPU as one: what each of them says in, what the task says out,
//! and back. Nothing here knows a page, a socket or a clock.
//!
//! `member` is what is known of one process; `life` how they come and go, `job`, `swap`, `budget` and
//! `volume` how the task's is shared out among them; after each call the shell drains [`Members::poll`], and as long
//! as it can takes a [`Members::step`].

mod budget;
mod job;
mod life;
mod member;
mod swap;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::VecDeque;

use rtswap_policy::scheduler::{Command, Event, EventError, JobSeq, Usage, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use budget::{Balance, Question};
use job::TaskJob;
use member::{Member, State};
use swap::TaskSwap;

/// The most processes of one task.
pub const MAX_MEMBERS: usize = 64;

/// Names a process of a task: the number of its first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// What follows, to be done in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The scheduler is told.
    Tell(Event),
    /// An agent is told. A `SetBudget` is answered by [`Members::holds`], before the next effect.
    Do(MemberId, Command),
}

/// Whether the scheduler knows a session of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Absent,
    Attached,
    Lost,
}

/// The processes of one task on one GPU. With one of them, all that it says and is told passes
/// unchanged.
#[derive(Debug)]
pub struct Members {
    task: TaskId,
    /// δ.
    chunk: Bytes,
    /// It registered with a deadline: each process runs once in a job of the task.
    realtime: bool,
    session: Session,
    /// In the order of their coming.
    all: Vec<Member>,
    job: Option<TaskJob>,
    last_job: JobSeq,
    swap: Option<TaskSwap>,
    /// The scheduler's last budget, and how far it is shared out.
    budget: Bytes,
    balance: Option<Balance>,
    question: Option<Question>,
    last_want: u32,
    /// The backing store that the scheduler asks for and has no answer to.
    volume: Option<Bytes>,
    told_backing: Bytes,
    told: Usage,
    /// The scheduler has yet to hear of the usage.
    usage_changed: bool,
    now: Time,
    /// Something has changed since the last look at what follows.
    stirred: bool,
    effects: VecDeque<Effect>,
}

impl Members {
    /// None yet, of `task` on a GPU with chunks of `chunk`.
    pub fn new(task: TaskId, chunk: Bytes, realtime: bool) -> Self {
        Self {
            task,
            chunk,
            realtime,
            session: Session::Absent,
            all: Vec::new(),
            job: None,
            last_job: JobSeq(0),
            swap: None,
            budget: Bytes::ZERO,
            balance: None,
            question: None,
            last_want: 0,
            volume: None,
            told_backing: Bytes::ZERO,
            told: Usage::default(),
            usage_changed: false,
            now: Time::default(),
            stirred: false,
            effects: VecDeque::new(),
        }
    }

    /// The next effect; none when all are taken.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Draws the first conclusion of what has changed: where memory is before what frees the GPU or
    /// asks for it. False if there is none. What the scheduler makes of one decides about the next: when
    /// its effects are taken and the scheduler wants nothing more.
    pub fn step(&mut self) -> bool {
        const STEPS: [fn(&mut Members); 8] = [
            Members::admit,
            Members::tell_usage,
            Members::settle_volume,
            Members::end_job,
            Members::end_swap,
            Members::take_back,
            Members::ask,
            Members::open_job,
        ];
        if !self.stirred {
            return false;
        }
        if self.session == Session::Attached {
            for step in STEPS {
                step(self);
                if !self.effects.is_empty() {
                    return true;
                }
            }
        } else {
            self.take_back();
        }
        self.stirred = !self.effects.is_empty();
        self.stirred
    }

    /// Takes in what one process says. What cannot be is an error and changes nothing.
    pub fn hear(&mut self, now: Time, id: MemberId, event: &Event) -> Result<(), EventError> {
        let Some(at) = self.find(id) else {
            return Err(EventError::NotAttached(self.task));
        };
        match *event {
            Event::JobRequested { job, kind, .. } => self.job_requested(now, at, job, kind)?,
            Event::JobCompleted { job, .. } => self.job_completed(at, job)?,
            Event::SwapProgress { op, swapped, .. } => self.swap_progress(at, op, swapped)?,
            Event::SwapEnded {
                op,
                swapped,
                took,
                outcome,
                ..
            } => self.swap_ended(at, op, swapped, took, outcome)?,
            Event::Want { want, bytes, .. } => self.wants(at, want, bytes),
            Event::Usage { usage, .. } => self.used(at, usage)?,
            Event::Backing { bytes, .. } => self.backed(at, bytes)?,
            // No process says anything else.
            _ => return Err(EventError::NotAttached(self.task)),
        }
        self.stir(now);
        Ok(())
    }

    /// Does what the scheduler wants of the task.
    pub fn obey(&mut self, now: Time, command: &Command) {
        match *command {
            Command::Grant { job, .. } => self.granted(job),
            Command::Revoke { job, .. } => self.revoked(job),
            Command::Swap {
                op,
                direction,
                target,
                ..
            } => self.swap(op, direction, target),
            Command::Abort { op, .. } => self.abort(op),
            Command::SetBudget { bytes, answers, .. } => self.set_budget(now, bytes, answers),
            Command::SetVolume { bytes, .. } => self.set_volume(bytes),
            Command::Violation { kind, .. } => match kind {
                ViolationKind::Overrun | ViolationKind::Undrainable => self.is_stuck(),
                ViolationKind::SwapOverdue => self.give_up_silent(),
                ViolationKind::OverBudget | ViolationKind::Emergency | ViolationKind::Backing => {}
            },
            Command::Account(_) => {}
        }
        self.stir(now);
    }

    /// Looks at the clock: now and then is enough.
    pub fn tick(&mut self, now: Time) {
        self.let_in(now);
        self.stir(now);
    }

    /// Nobody is there.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What one process may hold.
    pub fn budget_of(&self, id: MemberId) -> Bytes {
        self.find(id).map_or(Bytes::ZERO, |at| self.all[at].budget)
    }

    fn find(&self, id: MemberId) -> Option<usize> {
        self.all.iter().position(|member| member.id == id)
    }

    /// Those that are talked to.
    fn present(&self) -> impl Iterator<Item = &Member> {
        let here = |member: &&Member| member.state == State::Present;
        self.all.iter().filter(here)
    }

    fn tell(&mut self, event: Event) {
        self.effects.push_back(Effect::Tell(event));
    }

    fn order(&mut self, at: usize, command: Command) {
        let id = self.all[at].id;
        self.effects.push_back(Effect::Do(id, command));
    }

    fn stir(&mut self, now: Time) {
        self.now = now;
        self.stirred = true;
    }

    /// Tells of the usage unless memory moves: until then the scheduler knows only what the task
    /// may hold.
    fn tell_usage(&mut self) {
        if self.swap.is_some() {
            return;
        }
        if self.is_overstated() {
            self.tell_changes(Bytes::ZERO);
        } else if self.usage_changed {
            self.usage_changed = false;
            let (task, usage) = (self.task, self.usage());
            self.told = usage;
            self.tell(Event::Usage { task, usage });
        }
    }

    /// Tells of usage and backing store at once: of either alone the scheduler would conclude what
    /// is not so.
    fn tell_changes(&mut self, dying: Bytes) {
        let (task, usage, backing) = (self.task, self.usage(), self.backing());
        self.usage_changed = false;
        self.told = usage;
        self.told_backing = backing;
        self.tell(Event::Regrouped {
            task,
            dying,
            usage,
            backing,
        });
    }

    /// Where the bytes of the task are.
    fn usage(&self) -> Usage {
        let shares = self.all.iter().map(Member::share);
        shares.fold(Usage::default(), |sum, share| Usage {
            resident: sum.resident + share.resident,
            swapped: sum.swapped + share.swapped,
            arena: sum.arena + share.arena,
        })
    }
}
