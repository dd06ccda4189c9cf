//! What holds in all conversations.

use alloc::vec;

use proptest::prelude::*;
use rtswap_policy::scheduler::{SwapOutcome, ViolationKind};
use rtswap_policy::units::Nanos;

use super::*;

const IDS: [ProcessId; 3] = [ProcessId(1), ProcessId(2), ProcessId(3)];

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize),
    Complete(usize),
    Request(usize, u64),
    /// A process uses all its budget.
    Use(usize),
    Lose(usize),
    Return(usize),
    /// A process returns with more than anybody knows of.
    Bring(usize),
    /// A process that was told to leave has left.
    Follow(usize),
    /// The task's last job is granted.
    Grant,
    Revoke,
    Overrun,
    /// A new budget, which grants the task's last request or does not.
    Budget(u64, bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..IDS.len();
    prop_oneof![
        8 => which.clone().prop_map(Step::Ask),
        6 => which.clone().prop_map(Step::Complete),
        6 => (which.clone(), 1..9_u64).prop_map(|(at, bytes)| Step::Request(at, bytes)),
        4 => which.clone().prop_map(Step::Use),
        1 => which.clone().prop_map(Step::Lose),
        2 => which.clone().prop_map(Step::Return),
        2 => which.clone().prop_map(Step::Bring),
        4 => which.prop_map(Step::Follow),
        6 => Just(Step::Grant),
        1 => Just(Step::Revoke),
        3 => Just(Step::Overrun),
        6 => (1..20_u64, any::<bool>()).prop_map(|(bytes, granted)| Step::Budget(bytes, granted)),
        8 => (0..60_u64).prop_map(Step::Pass),
        1 => (900..1_100_u64).prop_map(Step::Pass),
    ]
}

/// A scene and all that came of it.
struct Play {
    scene: Scene,
    /// Ticks each millisecond, not only when that is due.
    is_eager: bool,
    log: Vec<(u64, Effect)>,
    /// The last job of each process.
    jobs: [u32; IDS.len()],
    wants: u32,
    /// What the task asked for last.
    job: Option<JobSeq>,
    want: Option<BudgetRequestSeq>,
    /// What each process was told to swap out, and has not.
    swaps: [Option<(SwapSeq, Bytes)>; IDS.len()],
}

impl Play {
    fn new(is_eager: bool) -> Self {
        Self {
            scene: Scene::new(&IDS.map(|id| (id, 0))),
            is_eager,
            log: Vec::new(),
            jobs: [0; IDS.len()],
            wants: 0,
            job: None,
            want: None,
            swaps: [None; IDS.len()],
        }
    }

    fn take(&mut self, step: Step) {
        let (now, task) = (self.scene.time(), TASK);
        match step {
            Step::Ask(at) => {
                let (job, kind) = (JobSeq(self.jobs[at] + 1), JobKind::Declared);
                if self.report(at, Report::JobRequested { job, kind }) {
                    self.jobs[at] += 1;
                }
            }
            Step::Complete(at) => {
                let job = JobSeq(self.jobs[at]);
                self.report(at, Report::JobCompleted { job });
            }
            Step::Request(at, bytes) => {
                self.wants += 1;
                let (want, bytes) = (BudgetRequestSeq(self.wants), Bytes(bytes));
                self.report(at, Report::BudgetRequested { want, bytes });
            }
            Step::Use(at) => {
                let resident = self.scene.group.budget_of(IDS[at]);
                let usage = Usage {
                    resident,
                    ..Usage::default()
                };
                self.report(at, Report::Usage(usage));
            }
            Step::Lose(at) => self.scene.group.lose(now, IDS[at]),
            Step::Return(at) => self.bring(at, 0),
            Step::Bring(at) => self.bring(at, 3 * CHUNK),
            Step::Follow(at) => {
                if let Some((op, swapped)) = self.swaps[at].take() {
                    let (took, outcome) = (Nanos(1), SwapOutcome::Done);
                    self.report(
                        at,
                        Report::SwapEnded {
                            op,
                            swapped,
                            took,
                            outcome,
                        },
                    );
                }
            }
            Step::Grant => self.obey(self.job.map(|job| Command::Grant { task, job })),
            Step::Revoke => self.obey(self.job.map(|job| Command::Revoke { task, job })),
            Step::Overrun => self.obey(Some(Command::Violation {
                task,
                kind: ViolationKind::Overrun,
                detail: "past its WCET".into(),
            })),
            Step::Budget(bytes, granted) => {
                let answers = self.want.take().map(|want| BudgetAnswer { want, granted });
                let bytes = Bytes(bytes);
                self.obey(Some(Command::SetBudget {
                    task,
                    bytes,
                    answers,
                }));
            }
            Step::Pass(ms) => (0..ms).for_each(|_| self.pass()),
        }
        self.note();
    }

    /// A process returns with what it may have and so many bytes more, all of which could leave.
    fn bring(&mut self, at: usize, more: u64) {
        let (now, group) = (self.scene.time(), &mut self.scene.group);
        let resident = group.budget_of(IDS[at]) + Bytes(more);
        let usage = Usage {
            resident,
            swapped: Bytes::ZERO,
            arena: Bytes(more),
        };
        let attached = group.attach(now, IDS[at], usage, Bytes(more), None, Bytes::ZERO);
        assert_eq!(attached, Ok(()));
        self.swaps[at] = None;
    }

    fn report(&mut self, at: usize, report: Report) -> bool {
        let now = self.scene.time();
        self.scene.group.report(now, IDS[at], report).is_ok()
    }

    fn obey(&mut self, command: Option<Command>) {
        if let Some(command) = command {
            self.scene.group.obey(self.scene.time(), &command);
        }
    }

    /// A millisecond passes.
    fn pass(&mut self) {
        self.scene.now += 1;
        let is_due = self.scene.due().is_some_and(|due| due <= self.scene.now);
        if is_due || self.is_eager {
            self.scene.group.tick(self.scene.time());
        }
        self.note();
    }

    fn note(&mut self) {
        for effect in self.scene.effects() {
            match effect {
                Effect::Tell(Event::JobRequested { job, .. }) => self.job = Some(job),
                Effect::Tell(Event::BudgetRequested { want, .. }) => self.want = Some(want),
                Effect::Order(id, Order::Swap { op, target, .. }) => {
                    let at = IDS.iter().position(|it| *it == id);
                    self.swaps[at.expect("one of these")] = Some((op, target));
                }
                _ => {}
            }
            self.log.push((self.scene.now, effect));
        }
    }
}

/// What came of the steps with ticks when they are due, and with one each millisecond.
fn plays(steps: &[Step]) -> [Vec<(u64, Effect)>; 2] {
    [false, true].map(|is_eager| {
        let mut play = Play::new(is_eager);
        for &step in steps {
            play.take(step);
        }
        play.log
    })
}

/// A process whose memory was unproven holds no more than its budget, after the time at which it would
/// have asked for more.
#[test]
fn nothing_is_requested_for_what_was_unproven_once() {
    let [on_time, eager] = plays(&[
        Step::Bring(0),
        Step::Budget(1, false),
        Step::Bring(2),
        Step::Pass(19),
        Step::Budget(1, false),
        Step::Pass(981),
        Step::Budget(1, true),
        Step::Pass(19),
        Step::Use(2),
        Step::Request(0, 1),
        Step::Budget(1, false),
    ]);
    assert_eq!(on_time, eager);
    let told = on_time.iter().rev().find_map(|(_, effect)| match effect {
        Effect::Tell(Event::BudgetRequested { bytes, .. }) => Some(*bytes),
        _ => None,
    });
    assert_eq!(
        told,
        Some(Bytes(1)),
        "the last request is that of the program"
    );
}

proptest! {
    #[test]
    fn ticks_when_due_are_as_good_as_one_each_millisecond(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let [on_time, eager] = plays(&steps);
        prop_assert_eq!(on_time, eager);
    }

    /// Of each process so many chunks are on the GPU and in its backing store, which has room for more.
    #[test]
    fn the_parts_of_a_swap_operation_add_up(
        processes in prop::collection::vec((0..6_u64, 0..6_u64, 0..6_u64), 1..5),
        part in 0..101_u64,
        direction in prop::sample::select(&[Direction::Out, Direction::In][..]),
    ) {
        let mut scene = Scene::new(&[]);
        let (mut most, mut all) = (0, 0);
        for (at, &(resident, swapped, room)) in processes.iter().enumerate() {
            let [resident, swapped, room] = [resident, swapped, room].map(|it| Bytes(it * CHUNK));
            let usage = Usage { resident, swapped, arena: resident + swapped };
            scene.attach(ProcessId(at as u64), usage, swapped + room);
            all += swapped.0;
            most += match direction {
                Direction::Out => resident.min(room).0,
                Direction::In => swapped.0,
            };
        }
        scene.budget(1_000);
        let moves = Bytes(most * part / 100).round_down(Bytes(CHUNK)).0;
        let target = match direction {
            Direction::Out => all + moves,
            Direction::In => all - moves,
        };
        let mut moved = 0;
        for effect in scene.swap(direction, Bytes(target)) {
            if let Effect::Order(ProcessId(at), Order::Swap { target, .. }) = effect {
                let (resident, swapped, room) = processes[at as usize];
                let part = target.0.abs_diff(swapped * CHUNK);
                let most = match direction {
                    Direction::Out => resident.min(room),
                    Direction::In => swapped,
                };
                prop_assert!(part <= most * CHUNK, "{part} of {at}");
                moved += part;
            }
        }
        prop_assert_eq!(moved, moves);
    }
}
