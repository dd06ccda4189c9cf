//! What true agents and a true shell know, and how they answer.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::super::super::*;
use super::super::shell::{CHUNK, MS, best_effort, realtime};
use crate::task::{TaskId, TaskSpec};
use crate::units::{Bytes, Nanos, Time};

/// What a true agent and a true shell know.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) usage: Usage,
    pub(super) attached: bool,
    pub(super) backing: u64,
    pub(super) budgets: Vec<Bytes>,
    pub(super) volumes: Vec<Bytes>,
    pub(super) op: Option<(SwapSeq, Bytes)>,
    pub(super) aborted: bool,
    /// How often it could not go on for want of budget.
    pub(super) starved: u32,
    /// Asked for, not ended.
    pub(super) job: Option<JobSeq>,
    pub(super) granted: bool,
    pub(super) jobs: u32,
    pub(super) want: Option<BudgetRequestSeq>,
    pub(super) wants: u32,
    pub(super) asked: u64,
}

pub(super) struct World {
    /// Budgets are confirmed at once, as by the daemon.
    pub(super) prompt: bool,
    pub(super) scheduler: Scheduler,
    pub(super) now: u64,
    pub(super) truth: BTreeMap<u32, Truth>,
}

impl World {
    pub(super) fn tell(&mut self, event: Event) -> bool {
        let told = self.handle(event);
        if self.prompt {
            self.settle();
        }
        told
    }

    /// Whether it was admitted.
    pub(super) fn register(&mut self, task: TaskId, spec: TaskSpec) -> bool {
        let said = format!("{spec:?}");
        let admitted = self.hand_in(&said, |scheduler, now| {
            scheduler.register(now, task, spec).is_ok()
        });
        if self.prompt {
            self.settle();
        }
        admitted
    }

    /// Confirms budgets until there is nothing to confirm.
    pub(super) fn settle(&mut self) {
        for _ in 0..1_000 {
            let mut truths = self.truth.iter_mut();
            let Some((id, truth)) = truths.find(|(_, truth)| !truth.budgets.is_empty()) else {
                return;
            };
            let bytes = truth.budgets.remove(0).max(truth.usage.resident);
            let task = TaskId(*id);
            // One that is gone has nothing to confirm.
            self.handle(Event::BudgetSet { task, bytes });
        }
        panic!("never comes to rest: {:#?}", self.scheduler.state());
    }

    pub(super) fn handle(&mut self, event: Event) -> bool {
        let said = format!("{event:?}");
        self.hand_in(&said, |scheduler, now| scheduler.handle(now, event).is_ok())
    }

    fn hand_in(&mut self, said: &str, input: impl FnOnce(&mut Scheduler, Time) -> bool) -> bool {
        let before = self.scheduler.clone();
        let taken = input(&mut self.scheduler, Time(self.now));
        if !taken {
            let state = |scheduler: &Scheduler| format!("{:?}", scheduler.state());
            let (before, after) = (state(&before), state(&self.scheduler));
            assert_eq!(before, after, "{said} was refused and changed something");
        }
        let plan = |scheduler: &Scheduler| -> Vec<_> {
            let tasks = scheduler.state().tasks();
            let planned = tasks.filter(|task| task.volume.or(task.next_volume).is_some());
            planned
                .map(|task| (task.task, task.class, task.volume, task.next_volume))
                .collect()
        };
        if before.state().plan_revision() == self.scheduler.state().plan_revision() {
            let (before, after) = (plan(&before), plan(&self.scheduler));
            assert_eq!(before, after, "{said} changed the plan");
        }
        for _ in 0..1_000 {
            let Some(command) = self.scheduler.poll_command() else {
                return taken;
            };
            self.note(&command);
        }
        panic!("never comes to rest: {:#?}", self.scheduler.state());
    }

    pub(super) fn of(&mut self, task: TaskId) -> &mut Truth {
        self.truth.entry(task.0).or_default()
    }

    pub(super) fn note(&mut self, command: &Command) {
        match *command {
            Command::SetBudget {
                task,
                bytes,
                answers,
            } => {
                let truth = self.of(task);
                truth.budgets.push(bytes);
                if let Some(answered) = answers {
                    assert_eq!(
                        truth.want.take(),
                        Some(answered.want),
                        "answers what was not asked"
                    );
                }
            }
            Command::SetBackingStore { task, bytes } => self.of(task).volumes.push(bytes),
            Command::Swap {
                task, op, target, ..
            } => {
                let truth = self.of(task);
                assert!(truth.attached);
                truth.op = Some((op, target));
                truth.aborted = false;
                truth.starved = 0;
            }
            Command::Abort { task, op } => {
                let truth = self.of(task);
                truth.aborted |= truth.op.is_some_and(|(seq, _)| seq == op);
            }
            Command::Grant { task, job } => {
                let truth = self.of(task);
                assert_eq!(truth.job, Some(job));
                assert!(!truth.granted);
                truth.granted = true;
            }
            Command::Account(account) => {
                let truth = self.of(account.task);
                assert_eq!(truth.job.take(), Some(account.job));
                truth.granted = false;
                let spans = account.queue + account.swap_out + account.swap_in + account.execution;
                assert_eq!(spans, account.ended - account.eligible, "{account:?}");
            }
            Command::Revoke { .. } | Command::Violation { .. } => {}
        }
    }

    pub(super) fn answer_shell(&mut self, id: u32, lie: Option<Bytes>) -> bool {
        let truth = self.truth.entry(id).or_default();
        if truth.budgets.is_empty() {
            return false;
        }
        let asked = truth.budgets[0];
        let bytes = lie.unwrap_or(asked.max(truth.usage.resident));
        let told = self.handle(Event::BudgetSet {
            task: TaskId(id),
            bytes,
        });
        if told {
            self.truth.entry(id).or_default().budgets.remove(0);
        }
        told
    }

    pub(super) fn answer_volume(&mut self, id: u32, pinned: Bytes) {
        let truth = self.truth.entry(id).or_default();
        let Some(asked) = truth.volumes.first().copied() else {
            return;
        };
        let bytes = asked.min(pinned).max(truth.usage.swapped);
        if self.tell(Event::Backing {
            task: TaskId(id),
            bytes,
        }) {
            self.truth.entry(id).or_default().volumes.remove(0);
        }
    }

    /// The shell answers all that it was asked.
    pub(super) fn answer_all(&mut self) {
        for id in 1..6 {
            for _ in 0..1_000 {
                if !self.answer_shell(id, None) {
                    // One that is gone, or with a lie before it.
                    let truth = self.truth.entry(id).or_default();
                    if truth.budgets.is_empty() {
                        break;
                    }
                    truth.budgets.remove(0);
                }
            }
            while self.truth.get(&id).is_some_and(|t| !t.volumes.is_empty()) {
                self.answer_volume(id, Bytes::MAX);
            }
        }
    }

    /// Everybody does what is asked, once.
    pub(super) fn cooperate(&mut self, span: u64) {
        self.now += span;
        self.tell(Event::Timer);
        self.answer_all();
        for id in 1..6 {
            let truth = self.truth.entry(id).or_default().clone();
            let task = TaskId(id);
            if let Some((op, target)) = truth.op {
                self.go_on(id, op, target, truth.aborted);
            }
            if let Some(job) = truth.job.filter(|_| truth.granted) {
                self.tell(Event::JobCompleted { task, job });
            }
        }
    }

    /// An operation goes on, when pipelined by some chunks and as far as the budget allows.
    fn go_on(&mut self, id: u32, op: SwapSeq, target: Bytes, aborted: bool) {
        let chunk = Bytes(CHUNK);
        let task = TaskId(id);
        let status = self.scheduler.state().task(task).unwrap();
        let known = status.usage;
        // What was freed meanwhile can no longer leave, nor what no backing store takes any more.
        let most = known.arena.min(known.resident + known.swapped);
        let most = most.min(status.backing);
        let target = target.min(most.round_down(chunk));
        if !self.scheduler.pipelined() {
            return self.end_swap(id, op, target, SwapOutcome::Done);
        }
        if aborted {
            return self.end_swap(id, op, known.swapped, SwapOutcome::Aborted);
        }
        let room = status.budget.saturating_sub(known.resident);
        // A few reports each, whatever the size.
        let distance = Bytes(known.swapped.0.abs_diff(target.0) / 4).round_up(chunk);
        let moved = distance.max(chunk);
        let swapped = if known.swapped <= target {
            target.min(known.swapped + moved)
        } else if room >= chunk {
            known.swapped - moved.min(room.round_down(chunk))
        } else {
            let truth = self.truth.entry(id).or_default();
            truth.starved += 1;
            if truth.starved > 40 {
                self.end_swap(id, op, known.swapped, SwapOutcome::OutOfMemory);
            }
            return;
        };
        if swapped == target {
            return self.end_swap(id, op, swapped, SwapOutcome::Done);
        }
        self.moved(id, swapped);
        assert!(self.tell(Event::SwapProgress { task, op, swapped }));
    }

    fn moved(&mut self, id: u32, swapped: Bytes) {
        let usage = &mut self.truth.entry(id).or_default().usage;
        usage.resident = (usage.resident + usage.swapped).saturating_sub(swapped);
        usage.swapped = swapped;
    }

    pub(super) fn end_swap(&mut self, id: u32, op: SwapSeq, swapped: Bytes, outcome: SwapOutcome) {
        let task = TaskId(id);
        self.truth.entry(id).or_default().op = None;
        self.moved(id, swapped);
        let ended = self.tell(Event::SwapEnded {
            task,
            op,
            swapped,
            took: Nanos::ZERO,
            outcome,
        });
        assert!(ended, "{id} cannot end {op:?} at {swapped}");
    }

    pub(super) fn request(&mut self, id: u32) {
        let truth = self.truth.entry(id).or_default();
        truth.jobs += 1;
        let job = JobSeq(truth.jobs);
        truth.job = Some(job);
        let task = TaskId(id);
        let kind = JobKind::Declared;
        assert!(self.tell(Event::JobRequested { task, job, kind }));
    }

    /// Three realtime tasks that must swap and a best-effort one, loaded and ready.
    pub(super) fn open(&mut self) {
        let specs = [
            realtime(400, 5, 60, 40),
            realtime(500, 20, 40, 40),
            realtime(300, 5, 50, 20),
            best_effort(),
        ];
        for (id, mut spec) in (1..).zip(specs) {
            let task = TaskId(id);
            spec.name = (id % 3).to_string();
            let bytes = spec.memory.footprint.max(Bytes(30));
            assert!(self.register(task, spec));
            self.tell(Event::Attach {
                task,
                usage: Usage::default(),
                backing: Bytes::ZERO,
                open: None,
            });
            let truth = self.truth.entry(id).or_default();
            truth.attached = true;
            truth.want = Some(BudgetRequestSeq(1));
            truth.wants = 1;
            let want = BudgetRequestSeq(1);
            self.tell(Event::BudgetRequested { task, want, bytes });
            for _ in 0..9 {
                self.cooperate(MS);
            }
            let truth = self.truth.entry(id).or_default();
            let room = self.scheduler.state().task(task).unwrap().budget;
            truth.usage = Usage {
                resident: bytes.min(room),
                swapped: Bytes::ZERO,
                arena: bytes.min(room),
            };
            let usage = truth.usage;
            self.tell(Event::Usage { task, usage });
            self.cooperate(MS);
        }
        for id in [1, 2, 3, 1, 2, 3] {
            self.now += 500 * MS;
            self.request(id);
            for _ in 0..30 {
                self.cooperate(MS);
            }
        }
        let ready = |id| self.scheduler.state().task(TaskId(id)).unwrap().phase == Phase::Ready;
        assert!(
            [1, 2, 3].into_iter().all(ready),
            "{:#?}",
            self.scheduler.state()
        );
    }

    /// From now on everybody is cooperative: what is open must come to its end.
    pub(super) fn close(&mut self) {
        self.tell(Event::Capacity {
            bytes: Bytes(1 << 60),
        });
        for id in 1..6 {
            self.tell(Event::Released { task: TaskId(id) });
        }
        for _ in 0..400 {
            self.cooperate(50 * MS);
        }
        for (id, truth) in &self.truth {
            let open = truth.job.is_some() || truth.want.is_some();
            assert!(
                !open || !truth.attached,
                "{id} is forgotten: {truth:?}\n{:#?}",
                self.scheduler.state()
            );
        }
    }
}
