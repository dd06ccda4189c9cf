//! One random step: an event that may be true, or a lie.

use alloc::string::ToString;

use proptest::prelude::*;

use super::super::super::*;
use super::super::shell::{CHUNK, MS, best_effort, realtime};
use super::world::{Truth, World};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// One step: raw numbers from which an event is made, true or false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: u8,
    pub(super) task: u32,
    pub(super) number: u32,
    pub(super) bytes: u64,
    pub(super) wait: u64,
    pub(super) choice: u8,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
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

impl World {
    pub(super) fn step(&mut self, step: Step) {
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
                self.register(task, spec);
            }
            2 if number == 0 => {
                self.tell(Event::Demote { task });
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
            7 if choice.is_multiple_of(2) => {
                self.tell(Event::Released { task });
            }
            7 => {
                let dying = bytes;
                let backing = Bytes(u64::from(number) * CHUNK).min(Bytes(truth.backing));
                let resident = truth.usage.resident.saturating_sub(dying);
                let swapped = truth.usage.swapped;
                let usage = Usage {
                    resident,
                    swapped,
                    arena: truth.usage.arena.min(resident + swapped),
                };
                let event = Event::Regrouped {
                    task,
                    dying,
                    usage,
                    backing,
                };
                if self.tell(event) {
                    let truth = self.truth.entry(id).or_default();
                    truth.usage = usage;
                    truth.backing = backing.0;
                }
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
                let want = BudgetRequestSeq(entry.wants + 1);
                let had = entry.want.replace(want);
                entry.wants += 1;
                entry.asked = self.now;
                if !self.tell(Event::BudgetRequested { task, want, bytes }) {
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
}
