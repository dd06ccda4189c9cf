//! From event to event.

use super::{Rules, Transition};
use crate::case::{Case, Stay};

/// Later than everything.
pub(super) const NEVER: i64 = i64::MAX;
/// More events than any case has.
const MOST_EVENTS: u32 = 20_000;
/// So many events without a realtime job, and a plan that has not come about never will: somebody
/// must be out of whom nothing may be.
const MOST_IDLE: u32 = 200;

/// A realtime job that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The place of its task.
    pub task: usize,
    /// Its number, from 0.
    pub job: usize,
    /// When it was eligible.
    pub eligible: i64,
    /// When it was granted.
    pub granted: i64,
    /// When it completed.
    pub end: i64,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The largest response over deadline, in thousandths, rounded up.
    pub ratio: i64,
    /// The largest completion − deadline.
    pub lateness: i64,
    /// Task, deadline and response of the job with that.
    pub worst: (usize, i64, i64),
    /// Realtime jobs that completed.
    pub jobs: usize,
    /// Two things happened at the same instant.
    pub tied: bool,
    /// It did not come to its end: a fault of the model.
    pub stuck: bool,
}

/// What victims are chosen by, per task, between two runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Chunks out.
    pub swapped: i64,
    /// Last eligible time + T.
    pub ready: i64,
    /// When a job of it was granted last.
    pub granted: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Queue,
    Region,
    Running,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) eligible: i64,
    pub(super) due: i64,
    pub(super) number: usize,
    pub(super) place: Place,
    pub(super) granted: i64,
}

/// A task; best-effort ones come after the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) there: bool,
    pub(super) planned: bool,
    pub(super) volume: i64,
    pub(super) held: i64,
    pub(super) swapped: i64,
    pub(super) ready: i64,
    pub(super) granted: i64,
    /// When its next job is released, and that job's number.
    pub(super) next: i64,
    pub(super) number: usize,
    pub(super) job: Option<Job>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Gpu {
    Free,
    Runs { task: usize, end: i64 },
    BestEffort { end: i64, leaving: bool },
}

/// A swap operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) task: usize,
    pub(super) beneficiary: usize,
    pub(super) count: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) best_effort: bool,
    pub(super) aborting: bool,
    /// Of a pipelined swap-in: chunks that have no memory yet, and when the engine is done with
    /// those that have.
    pub(super) waiting: i64,
    pub(super) busy_until: i64,
}

/// Runs cases; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct Engine {
    states: Vec<State>,
    /// Every instant at which something happened in the latest run.
    pub instants: Vec<i64>,
    /// The realtime jobs of the latest run, in order of completion.
    pub finished: Vec<Finished>,
}

pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    pub(super) rules: &'a Rules,
    pub(super) now: i64,
    pub(super) states: Vec<State>,
    pub(super) free: i64,
    pub(super) gpu: Gpu,
    pub(super) out: Option<Op>,
    pub(super) in_: Option<Op>,
    /// Places of jobs whose region waits to execute.
    pub(super) regions: Vec<usize>,
    /// A new plan is to come.
    pub(super) pending: bool,
    pub(super) changed: bool,
    /// The union of both sets passes.
    pub(super) union_passes: bool,
    pub(super) last_deadline: i64,
    finished: Vec<Finished>,
    instants: Vec<i64>,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    GpuEnds,
    OutEnds,
    InEnds,
    Release(usize),
    Change,
    Wake,
}

impl Outcome {
    /// A job of the task at `place` has completed.
    pub fn count(&mut self, place: usize, deadline: i64, response: i64) {
        self.jobs += 1;
        let ratio = (response * 1_000 + deadline - 1) / deadline;
        self.ratio = self.ratio.max(ratio);
        if response - deadline > self.lateness {
            self.lateness = response - deadline;
            self.worst = (place, deadline, response);
        }
    }
}

impl Engine {
    /// Runs `case` by `rules`. `union_passes` says whether its change may take effect at once.
    pub fn run(&mut self, case: &Case, rules: &Rules, union_passes: bool) -> Outcome {
        let mut run = Run::new(self, case, rules, union_passes);
        for state in &run.states {
            run.free -= state.held;
        }
        run.go();
        self.take_back(run)
    }

    /// As `run`, and returns where the memory is at its end. Instead of what the case says it
    /// begins with `residency`.
    pub fn run_from(&mut self, case: &Case, rules: &Rules, residency: &mut [Residency]) -> Outcome {
        let mut run = Run::new(self, case, rules, false);
        for (place, from) in residency.iter().enumerate() {
            let state = &mut run.states[place];
            state.swapped = from.swapped;
            state.held = case.tasks[place].footprint - from.swapped;
            state.ready = from.ready;
            state.granted = from.granted;
        }
        for state in &run.states {
            run.free -= state.held;
        }
        run.go();
        for (place, to) in residency.iter_mut().enumerate() {
            let state = &run.states[place];
            (to.swapped, to.ready, to.granted) = (state.swapped, state.ready, state.granted);
        }
        self.take_back(run)
    }

    fn take_back(&mut self, run: Run<'_>) -> Outcome {
        self.states = run.states;
        self.instants = run.instants;
        self.finished = run.finished;
        run.outcome
    }
}

impl<'a> Run<'a> {
    fn new(engine: &mut Engine, case: &'a Case, rules: &'a Rules, union_passes: bool) -> Self {
        let mut states = core::mem::take(&mut engine.states);
        let mut instants = core::mem::take(&mut engine.instants);
        let mut finished = core::mem::take(&mut engine.finished);
        states.clear();
        instants.clear();
        finished.clear();
        states.extend(case.tasks.iter().map(|task| {
            let there = task.stay != Stay::Arrives;
            // Who arrives has been loaded, and swapped out as far as it may be.
            let swapped = if there {
                task.swapped
            } else {
                task.volume_after
            };
            State {
                there,
                planned: there,
                volume: task.volume,
                held: task.footprint - swapped,
                swapped,
                ready: task.ready,
                granted: -1,
                next: if there { task.first } else { NEVER },
                number: 0,
                job: None,
            }
        }));
        states.extend(case.best_effort.iter().map(|task| State {
            there: true,
            planned: false,
            volume: task.swappable,
            held: task.footprint - task.swapped,
            swapped: task.swapped,
            ready: NEVER,
            granted: -1,
            next: NEVER,
            number: 0,
            job: None,
        }));
        Self {
            case,
            rules,
            now: 0,
            states,
            free: case.capacity,
            gpu: Gpu::Free,
            out: None,
            in_: None,
            regions: Vec::with_capacity(2),
            pending: false,
            changed: false,
            union_passes,
            last_deadline: 0,
            finished,
            instants,
            outcome: Outcome {
                lateness: -NEVER,
                ..Outcome::default()
            },
        }
    }

    /// The place of the best-effort task that has jobs.
    pub(super) fn best_effort(&self) -> Option<usize> {
        self.case.best_effort.first().map(|_| self.case.tasks.len())
    }

    fn go(&mut self) {
        self.decide();
        let mut idle = 0;
        for _ in 0..MOST_EVENTS {
            let Some((at, happening)) = self.next() else {
                return;
            };
            self.outcome.tied |= at == self.now && self.instants.last() == Some(&at);
            self.now = at;
            self.instants.push(at);
            self.happen(happening);
            self.decide();
            idle = if self.idle() { idle + 1 } else { 0 };
            if idle > MOST_IDLE && self.pending {
                return;
            }
        }
        self.outcome.stuck = true;
    }

    fn next(&self) -> Option<(i64, Happening)> {
        let ends = [
            match self.gpu {
                Gpu::Free => (NEVER, Happening::GpuEnds),
                Gpu::Runs { end, .. } | Gpu::BestEffort { end, .. } => (end, Happening::GpuEnds),
            },
            (self.out.map_or(NEVER, |op| op.end), Happening::OutEnds),
            (self.in_.map_or(NEVER, |op| op.end), Happening::InEnds),
        ];
        let mut next = (NEVER, Happening::GpuEnds);
        for end in ends {
            if end.0 < next.0 {
                next = end;
            }
        }
        let mut realtime = false;
        for (place, state) in self.states.iter().enumerate() {
            realtime |= state.job.is_some();
            if state.job.is_some() || state.next == NEVER || !state.planned {
                continue;
            }
            realtime = true;
            let at = state.next.max(self.now);
            let release = matches!(next.1, Happening::Release(_));
            if at < next.0 || (at == next.0 && self.case.releases_first && !release) {
                next = (at, Happening::Release(place));
            }
        }
        if let Some(at) = self.case.change
            && !self.changed
        {
            realtime = true;
            if at < next.0 {
                next = (at, Happening::Change);
            }
        }
        if self.pending && self.rules.transition == Transition::LastDeadline {
            let at = self.last_deadline.max(self.now + 1);
            if at < next.0 {
                next = (at, Happening::Wake);
            }
        }
        // Best-effort alone goes on for ever.
        (next.0 != NEVER && (realtime || self.pending)).then_some(next)
    }

    /// When something happens next.
    pub(super) fn next_event(&self) -> Option<i64> {
        self.next().map(|(at, _)| at)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::GpuEnds => match self.gpu {
                Gpu::Free => {}
                Gpu::BestEffort { .. } => self.gpu = Gpu::Free,
                Gpu::Runs { task, .. } => {
                    self.gpu = Gpu::Free;
                    self.complete(task);
                }
            },
            Happening::OutEnds => self.out_ends(),
            Happening::InEnds => self.in_ends(),
            Happening::Release(place) => self.release(place),
            Happening::Change => self.change(),
            Happening::Wake => {}
        }
    }

    fn release(&mut self, place: usize) {
        let task = &self.case.tasks[place];
        let state = &mut self.states[place];
        state.job = Some(Job {
            eligible: self.now,
            due: self.now + task.deadline,
            number: state.number,
            place: Place::Queue,
            granted: 0,
        });
        state.ready = self.now + task.period;
        let gap = task.gaps.get(state.number);
        state.next = gap.map_or(NEVER, |gap| state.ready + gap);
        state.number += 1;
    }

    fn complete(&mut self, place: usize) {
        let task = &self.case.tasks[place];
        let state = &mut self.states[place];
        let Some(job) = state.job.take() else {
            return;
        };
        if !state.planned {
            self.go_if_departed(place);
            return;
        }
        let response = self.now - job.eligible;
        self.outcome.count(place, task.deadline, response);
        self.finished.push(Finished {
            task: place,
            job: job.number,
            eligible: job.eligible,
            granted: job.granted,
            end: self.now,
        });
    }

    /// Who departs gives up its waiting job; a region or a job that runs goes on as it began.
    fn change(&mut self) {
        self.changed = true;
        self.pending = true;
        for place in 0..self.case.tasks.len() {
            if self.case.tasks[place].stay != Stay::Departs {
                continue;
            }
            let state = &mut self.states[place];
            state.planned = false;
            if state.number > 0 {
                let task = &self.case.tasks[place];
                let due = state.ready - task.period + task.deadline;
                self.last_deadline = self.last_deadline.max(due);
            }
            state.next = NEVER;
            state.ready = NEVER;
            if state.job.is_some_and(|job| job.place == Place::Queue) {
                state.job = None;
            }
            self.go_if_departed(place);
        }
    }

    /// Gives back the memory of who has departed, once nothing of it moves or runs.
    pub(super) fn go_if_departed(&mut self, place: usize) {
        let departs = place < self.case.tasks.len()
            && self.changed
            && self.case.tasks[place].stay == Stay::Departs;
        let state = &self.states[place];
        if departs && state.there && state.job.is_none() && !self.moves(place) {
            self.free += state.held;
            let state = &mut self.states[place];
            state.there = false;
            state.held = 0;
            state.swapped = 0;
        }
    }
}
