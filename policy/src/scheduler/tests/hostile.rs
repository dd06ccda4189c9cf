//! Random sequences of events, well-formed and hostile: nothing panics, the invariants hold after
//! each (`handle` checks them), every want is answered, every job is granted or ended.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::shell::{CHUNK, MS, best_effort, config, realtime};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// One step: raw numbers from which an event is made, true or false.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: u8,
    task: u32,
    number: u32,
    bytes: u64,
    wait: u64,
    choice: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        4 => (0_u64..12).prop_map(|chunks| chunks * CHUNK),
        2 => 0_u64..130,
        1 => prop_oneof![Just(u64::MAX), Just(1 << 50), Just((1 << 50) + 1)],
    ];
    (0_u8..28, 1_u32..6, 0_u32..4, bytes, 0_u64..40, any::<u8>()).prop_map(
        |(what, task, number, bytes, wait, choice)| Step {
            what,
            task,
            number,
            bytes,
            wait,
            choice,
        },
    )
}

/// What a true agent and a true shell know.
#[derive(Clone, Debug, Default)]
struct Truth {
    usage: Usage,
    attached: bool,
    backing: u64,
    budgets: Vec<Bytes>,
    volumes: Vec<Bytes>,
    op: Option<(SwapSeq, Bytes)>,
    /// Asked for, not ended.
    job: Option<JobSeq>,
    granted: bool,
    jobs: u32,
    want: Option<WantSeq>,
    wants: u32,
    asked: u64,
}

struct World {
    /// Budgets are confirmed at once, as by the daemon.
    prompt: bool,
    scheduler: Scheduler,
    now: u64,
    truth: BTreeMap<u32, Truth>,
}

impl World {
    fn tell(&mut self, event: Event) -> bool {
        let told = self.handle(event);
        if self.prompt {
            self.settle();
        }
        told
    }

    /// Confirms budgets until there is nothing to confirm.
    fn settle(&mut self) {
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

    fn handle(&mut self, event: Event) -> bool {
        let said = format!("{event:?}");
        let before = format!("{:?}", self.scheduler.state());
        let told = self.scheduler.handle(Time(self.now), event);
        if told.is_err() {
            let after = format!("{:?}", self.scheduler.state());
            assert_eq!(before, after, "{said} was refused and changed something");
        }
        for _ in 0..1_000 {
            let Some(command) = self.scheduler.poll_command() else {
                return told.is_ok();
            };
            self.note(&command);
        }
        panic!("never comes to rest: {:#?}", self.scheduler.state());
    }

    fn of(&mut self, task: TaskId) -> &mut Truth {
        self.truth.entry(task.0).or_default()
    }

    fn note(&mut self, command: &Command) {
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
            Command::SetVolume { task, bytes } => self.of(task).volumes.push(bytes),
            Command::Swap {
                task, op, target, ..
            } => {
                let truth = self.of(task);
                assert!(truth.attached);
                truth.op = Some((op, target));
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
            Command::Admitted { .. }
            | Command::Refused { .. }
            | Command::Revoke { .. }
            | Command::Abort { .. }
            | Command::Violation { .. } => {}
        }
    }

    fn step(&mut self, step: Step) {
        let Step {
            what,
            task: id,
            number,
            bytes,
            wait,
            choice,
        } = step;
        self.now += wait * MS;
        if !choice.is_multiple_of(8) {
            self.answer_all();
        }
        let task = TaskId(id);
        let bytes = Bytes(bytes);
        let truth = self.truth.entry(id).or_default().clone();
        let usage = Usage {
            resident: bytes,
            swapped: truth.usage.swapped,
            arena: bytes + truth.usage.swapped,
        };
        match what {
            0 | 1 => {
                let mut spec = match choice % 4 {
                    0 => best_effort(),
                    1 => realtime(200 + 100 * u64::from(number), 5, 60, 40),
                    2 => realtime(150, 3, bytes.0, bytes.0),
                    _ => realtime(400, 20, 50, 10 * u64::from(number)),
                };
                spec.name = (id % 3).to_string();
                self.tell(Event::Register { task, spec });
            }
            2 => {
                let known = self.tell(Event::Unregister { task });
                let gone = self.scheduler.state().task(task).is_none();
                if known && gone {
                    self.truth.remove(&id);
                }
            }
            3..=5 => {
                let running = choice.is_multiple_of(5);
                let open = choice.is_multiple_of(3).then_some(OpenJob {
                    job: JobSeq(90 + number),
                    running,
                    kind: JobKind::Implicit,
                });
                let usage = if choice.is_multiple_of(7) {
                    usage
                } else {
                    Usage::default()
                };
                let backing = Bytes(u64::from(number) * CHUNK);
                let mut fresh = truth.clone();
                fresh.op = None;
                fresh.want = None;
                fresh.attached = true;
                fresh.budgets.clear();
                fresh.volumes.clear();
                let event = Event::Attach {
                    task,
                    usage,
                    backing,
                    open,
                };
                let was = self.truth.insert(id, fresh);
                // The jobs of a former session end first, so their account must find them.
                let before = self.scheduler.clone();
                let told = self.scheduler.handle(Time(self.now), event);
                if told.is_err() {
                    self.scheduler = before;
                    self.truth.insert(id, was.unwrap_or_default());
                    return;
                }
                let mut ended = truth.job.is_some();
                while let Some(command) = self.scheduler.poll_command() {
                    let truth = self.truth.entry(id).or_default();
                    truth.usage = usage;
                    truth.backing = backing.0;
                    if let Command::Account(account) = &command
                        && account.task == task
                    {
                        ended = false;
                    } else if !ended
                        && truth.job.is_none()
                        && let Some(open) = open
                    {
                        truth.job = Some(open.job);
                        truth.granted = open.running;
                    }
                    self.note(&command);
                }
                if self.prompt {
                    self.settle();
                }
            }
            6 => {
                if self.tell(Event::Detach { task }) {
                    let jobs = truth.jobs;
                    self.truth.insert(
                        id,
                        Truth {
                            jobs,
                            ..Truth::default()
                        },
                    );
                }
            }
            7 => {
                self.tell(Event::Released { task });
            }
            8 => {
                if self.tell(Event::Lost { task }) {
                    let truth = self.truth.entry(id).or_default();
                    truth.attached = false;
                    truth.op = None;
                    truth.want = None;
                    truth.budgets.clear();
                    truth.volumes.clear();
                }
            }
            9..=12 => {
                let job = JobSeq(truth.jobs + 1);
                let kind = match choice % 2 {
                    0 => JobKind::Declared,
                    _ => JobKind::Implicit,
                };
                let entry = self.truth.entry(id).or_default();
                let had = entry.job;
                entry.job = had.or(Some(job));
                entry.jobs += 1;
                if !self.tell(Event::JobRequested { task, job, kind }) {
                    let entry = self.truth.entry(id).or_default();
                    entry.job = had;
                }
            }
            13..=15 => {
                let job = truth
                    .job
                    .filter(|_| truth.granted)
                    .unwrap_or(JobSeq(number));
                self.tell(Event::JobCompleted { task, job });
            }
            16..=18 => {
                let (op, target) = truth.op.unwrap_or((SwapSeq(number), bytes));
                let outcome = match choice % 12 {
                    0 => SwapOutcome::Aborted,
                    1 => SwapOutcome::OutOfMemory,
                    2 => SwapOutcome::Undrainable,
                    3 => SwapOutcome::Failed,
                    _ => SwapOutcome::Done,
                };
                let swapped = if choice < 200 { target } else { bytes };
                let event = if choice > 240 {
                    Event::SwapProgress { task, op, swapped }
                } else {
                    Event::SwapEnded {
                        task,
                        op,
                        swapped,
                        took: Nanos::ZERO,
                        outcome,
                    }
                };
                let ends = matches!(event, Event::SwapEnded { .. });
                let entry = self.truth.entry(id).or_default();
                entry.op = entry.op.filter(|_| !ends);
                let usage = entry.usage;
                entry.usage.resident = (usage.resident + usage.swapped).saturating_sub(swapped);
                entry.usage.swapped = swapped;
                if !self.tell(event) {
                    let entry = self.truth.entry(id).or_default();
                    entry.op = truth.op;
                    entry.usage = usage;
                }
            }
            19 | 20 => {
                let entry = self.truth.entry(id).or_default();
                let want = WantSeq(entry.wants + 1);
                let had = entry.want.replace(want);
                entry.wants += 1;
                entry.asked = self.now;
                if !self.tell(Event::Want { task, want, bytes }) {
                    self.truth.entry(id).or_default().want = had;
                }
            }
            21 | 22 => {
                let budget = self
                    .scheduler
                    .state()
                    .task(task)
                    .map_or(bytes, |t| t.budget);
                let lies = choice > 240;
                let resident = if lies { bytes } else { bytes.min(budget) };
                let usage = Usage {
                    resident,
                    swapped: truth.usage.swapped,
                    arena: resident + truth.usage.swapped,
                };
                self.truth.entry(id).or_default().usage = usage;
                if !self.tell(Event::Usage { task, usage }) {
                    self.truth.entry(id).or_default().usage = truth.usage;
                }
            }
            23 | 24 => {
                self.answer_shell(id, (choice > 250).then_some(bytes));
            }
            25 => {
                let pinned = if choice < 40 { bytes } else { Bytes::MAX };
                self.answer_volume(id, pinned);
            }
            26 => {
                self.tell(Event::Capacity {
                    bytes: bytes.min(Bytes(1 << 50)),
                });
            }
            _ => {
                self.tell(Event::Timer);
            }
        }
    }

    fn answer_shell(&mut self, id: u32, lie: Option<Bytes>) -> bool {
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

    fn answer_volume(&mut self, id: u32, pinned: Bytes) {
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
    fn answer_all(&mut self) {
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
    fn cooperate(&mut self, span: u64) {
        self.now += span;
        self.tell(Event::Timer);
        self.answer_all();
        for id in 1..6 {
            let truth = self.truth.entry(id).or_default().clone();
            let task = TaskId(id);
            if let Some((op, target)) = truth.op {
                // What was freed meanwhile can no longer leave.
                let known = self.scheduler.state().task(task).unwrap().usage;
                let most = known.arena.min(known.resident + known.swapped);
                let swapped = target.min(most.round_down(Bytes(CHUNK)));
                self.end_swap(id, op, swapped, SwapOutcome::Done);
            }
            if let Some(job) = truth.job.filter(|_| truth.granted) {
                self.tell(Event::JobCompleted { task, job });
            }
        }
    }

    fn end_swap(&mut self, id: u32, op: SwapSeq, swapped: Bytes, outcome: SwapOutcome) {
        let task = TaskId(id);
        let truth = self.truth.entry(id).or_default();
        truth.op = None;
        let usage = &mut truth.usage;
        usage.resident = (usage.resident + usage.swapped).saturating_sub(swapped);
        usage.swapped = swapped;
        let ended = self.tell(Event::SwapEnded {
            task,
            op,
            swapped,
            took: Nanos::ZERO,
            outcome,
        });
        assert!(ended, "{id} cannot end {op:?} at {swapped}");
    }

    fn request(&mut self, id: u32) {
        let truth = self.truth.entry(id).or_default();
        truth.jobs += 1;
        let job = JobSeq(truth.jobs);
        truth.job = Some(job);
        let task = TaskId(id);
        let kind = JobKind::Declared;
        assert!(self.tell(Event::JobRequested { task, job, kind }));
    }

    /// Three realtime tasks that must swap and a best-effort one, loaded and ready.
    fn open(&mut self) {
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
            self.tell(Event::Register { task, spec });
            self.tell(Event::Attach {
                task,
                usage: Usage::default(),
                backing: Bytes::ZERO,
                open: None,
            });
            let truth = self.truth.entry(id).or_default();
            truth.attached = true;
            truth.want = Some(WantSeq(1));
            truth.wants = 1;
            let want = WantSeq(1);
            self.tell(Event::Want { task, want, bytes });
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
            for _ in 0..9 {
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
    fn close(&mut self) {
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

fn play(steps: &[Step], prepared: bool, prompt: bool, sharing: Sharing, overrun: Overrun) {
    let mut world = World {
        prompt,
        scheduler: Scheduler::new(Config {
            sharing,
            overrun,
            ..config(100)
        }),
        now: 0,
        truth: BTreeMap::new(),
    };
    if prepared {
        world.open();
    }
    for step in steps {
        world.step(*step);
    }
    world.close();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_is_forgotten_and_nothing_breaks(
        steps in prop::collection::vec(step(), 1..250),
        prepared in prop::bool::weighted(0.8),
        prompt in any::<bool>(),
        shared in any::<bool>(),
        demote in any::<bool>(),
    ) {
        let sharing = if shared { Sharing::Shared } else { Sharing::Exclusive };
        let overrun = if demote { Overrun::Demote } else { Overrun::Continue };
        play(&steps, prepared, prompt, sharing, overrun);
    }
}
