//! Steps from one instant to the next: tells the scheduler what happens, carries its commands
//! out, and asks when to wake it.
//!
//! `life` brings programs in and out, `jobs` follows their jobs, `bursts` goes on with those that were
//! revoked, `swaps` moves their chunks, `copies` shares the copy engines between them and running jobs, `commands` does what the scheduler says.

mod bursts;
mod commands;
mod copies;
mod jobs;
mod life;
mod swaps;

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{Direction, Discipline, Event, JobSeq, Scheduler, SwapSeq};
use rtswap_policy::task::{Class, TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::agent::{Agent, Stage};
use crate::clock::Clock;
use crate::error::SimError;
use crate::record::{Change, Observer};
use crate::report::{Report, TaskReport};
use crate::rng::Rng;
use crate::scenario::{Checks, Execution, Scenario, SimTask};

/// The least that [`patience`] is.
const LEAST_PATIENCE: Nanos = Nanos(60_000_000_000);

/// So much may happen at one instant, and so much more for each task.
const MOST_AT_ONCE: (usize, usize) = (100_000, 100);

/// Simulates `scenario` and watches nothing but the report.
///
/// # Errors
///
/// If the scenario cannot be, if a task does not come to its end, and on what would be bugs of
/// scheduler or simulator.
pub fn run(scenario: &Scenario) -> Result<Report, SimError> {
    observe(scenario, &mut ())
}

/// Simulates `scenario` and tells `observer` what happens.
///
/// # Errors
///
/// As [`run`].
pub fn observe<O: Observer>(scenario: &Scenario, observer: &mut O) -> Result<Report, SimError> {
    simulate(scenario, Scheduler::new(scenario.config), observer)
}

/// Simulates `scenario` with best-effort tasks that take turns by `discipline`, in place of the
/// product's policy.
///
/// # Errors
///
/// As [`run`].
pub fn observe_with<O: Observer>(
    scenario: &Scenario,
    discipline: Arc<dyn Discipline>,
    observer: &mut O,
) -> Result<Report, SimError> {
    let scheduler = Scheduler::with_discipline(scenario.config, discipline);
    simulate(scenario, scheduler, observer)
}

fn simulate<O: Observer>(
    scenario: &Scenario,
    scheduler: Scheduler,
    observer: &mut O,
) -> Result<Report, SimError> {
    scenario.check()?;
    let mut world = World::new(scenario, scheduler, observer);
    world.prepare()?;
    while world.clock.now <= world.until && !world.observer.enough() {
        world.step()?;
    }
    world.report.end = world.until.min(world.clock.now);
    while let Some(id) = world.busy().filter(|_| !world.observer.enough()) {
        if world.clock.now > world.until + world.patience {
            return Err(world.stuck(id));
        }
        world.step()?;
        world.report.end = world.clock.now;
    }
    Ok(world.report)
}

/// How long each task may take to load, and its last job to end: a minute, or twice what a job may
/// have to wait for, which is the longest period and deadline, and that every task moves all it
/// has out and in, chunk by chunk, and executes.
fn patience(scenario: &Scenario) -> Nanos {
    let config = &scenario.config;
    let moving = swaps::pace(config, Direction::Out) + swaps::pace(config, Direction::In);
    let cost = &config.swap_cost;
    let each = moving + cost.out.base + cost.in_.base;
    let mut waits = Nanos::ZERO;
    let mut works = Nanos::ZERO;
    for task in &scenario.tasks {
        let wcet = match task.spec.class {
            Class::Realtime(timing) => {
                waits = waits.max(timing.period + timing.deadline);
                timing.wcet
            }
            Class::BestEffort => Nanos::ZERO,
        };
        let longest = match &task.execution {
            Execution::Between { most, .. } => *most,
            Execution::Each(spans) => spans.iter().copied().max().unwrap_or_default(),
            Execution::Copies(script) => script.loaded().unwrap_or(Nanos::MAX),
        };
        let chunks = task.spec.memory.swappable.chunks(config.chunk);
        works += Nanos(each.0.saturating_mul(chunks));
        works += longest.max(wcet) + config.dispatch_latency + config.drain;
    }
    let bound = waits + works;
    LEAST_PATIENCE.max(bound + bound)
}

/// What happens at a planned instant.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The run begins to be reported.
    Start,
    /// A program starts, or ends.
    Arrives(TaskId),
    Departs(TaskId),
    /// The driver releases the memory of a task that has gone.
    Released(TaskId),
    /// The capacity mᴰ changes to so many bytes.
    Capacity(Bytes),
    /// A task asks to be of another class.
    Class(TaskId, Class),
    /// A job of this task is asked for.
    Request(TaskId),
    /// This job ends, if it did not before.
    JobEnds(TaskId, JobSeq),
    /// The script of this job begins, or a step of it ends, if that is still due now.
    Script(TaskId, JobSeq),
    /// This swap operation ends, pauses or reports, if it is still due now.
    Swap(TaskId, SwapSeq),
    /// Nothing: the clock gets that far.
    Passes,
}

struct World<'a, O> {
    scenario: &'a Scenario,
    observer: &'a mut O,
    scheduler: Scheduler,
    clock: Clock<Happening>,
    rng: Rng,
    /// Of each best-effort program, so that what it does hangs on no other.
    programs: Vec<Rng>,
    agents: Vec<Agent>,
    /// How many of them have a job open, and how many of these run.
    open: usize,
    running: usize,
    report: Report,
    /// Jobs are asked for until then.
    until: Time,
    /// How long the last of them may take, and each task to load.
    patience: Nanos,
    /// The start has been.
    started: bool,
    /// What agents answer to the commands that were just carried out.
    answers: VecDeque<Event>,
    /// The tasks that use the copy engines, one for each direction.
    out: Option<TaskId>,
    in_: Option<TaskId>,
    /// The time of one chunk as it is charged, out and in.
    pace: (Nanos, Nanos),
    /// Jobs copy while they run, so that copy engines are shared.
    has_copies: bool,
    /// The script of the job that runs, if it has one. Only realtime jobs do, and no two of them run at once.
    copying: Option<copies::Copying>,
    /// How much has happened at the present instant.
    at_once: usize,
}

impl<'a, O: Observer> World<'a, O> {
    fn new(scenario: &'a Scenario, scheduler: Scheduler, observer: &'a mut O) -> Self {
        let reports = scenario.tasks.iter().map(|task| TaskReport {
            name: task.spec.name.clone(),
            ..TaskReport::default()
        });
        Self {
            scenario,
            observer,
            scheduler,
            clock: Clock::new(),
            rng: Rng::new(scenario.seed),
            programs: bursts::generators(scenario),
            agents: alloc::vec![Agent::default(); scenario.tasks.len()],
            open: 0,
            running: 0,
            report: Report {
                tasks: reports.collect(),
                ..Report::default()
            },
            until: Time::MAX,
            patience: patience(scenario),
            started: false,
            answers: VecDeque::new(),
            out: None,
            in_: None,
            pace: (
                swaps::pace(&scenario.config, Direction::Out),
                swaps::pace(&scenario.config, Direction::In),
            ),
            has_copies: copies::are_in(scenario),
            copying: None,
            at_once: 0,
        }
    }

    fn sim(&self, id: TaskId) -> &'a SimTask {
        &self.scenario.tasks[id.0 as usize]
    }

    fn agent(&mut self, id: TaskId) -> &mut Agent {
        &mut self.agents[id.0 as usize]
    }

    fn ids(&self) -> impl Iterator<Item = TaskId> + use<O> {
        (0..self.agents.len()).map(|place| TaskId(place as u32))
    }

    /// A task with a job that has not ended, if there is one.
    fn busy(&self) -> Option<TaskId> {
        if self.open == 0 {
            return None;
        }
        let place = self.agents.iter().position(|agent| agent.open.is_some())?;
        Some(TaskId(place as u32))
    }

    /// What happens next: the scheduler's timer, unless something comes before it.
    fn step(&mut self) -> Result<(), SimError> {
        let before = self.clock.now;
        let next = self.clock.next();
        let passes = next.into_iter().chain(self.scheduler.poll_timeout()).min() > Some(before);
        if passes {
            self.at_once = 0;
        }
        if let Some(at) = self.scheduler.poll_timeout()
            && next.is_none_or(|next| at < next)
        {
            self.clock.jump(at);
            self.tell(Event::Timer)?;
        } else if let Some(happening) = self.clock.pop() {
            self.happens(happening)?;
        }
        self.at_once()
    }

    /// Counts what happens without time passing.
    fn at_once(&mut self) -> Result<(), SimError> {
        self.at_once += 1;
        let (some, each) = MOST_AT_ONCE;
        if self.at_once > some + each * self.agents.len() {
            return Err(SimError::Standstill {
                at: self.clock.now,
                events: self.at_once,
            });
        }
        Ok(())
    }

    fn happens(&mut self, happening: Happening) -> Result<(), SimError> {
        match happening {
            Happening::Start => {
                self.start();
                Ok(())
            }
            Happening::Arrives(id) => self.load(id),
            Happening::Departs(id) => self.depart(id),
            Happening::Released(id) => self.released(id),
            Happening::Capacity(bytes) => {
                self.changed(Change::Capacity(bytes));
                self.tell(Event::Capacity { bytes })
            }
            Happening::Class(id, class) => self.change(id, class),
            Happening::Request(id) => self.release(id),
            Happening::JobEnds(id, job) => self.job_ends(id, job),
            Happening::Script(id, job) => self.script_is_due(id, job),
            Happening::Swap(id, op) => self.swap_is_due(id, op),
            Happening::Passes => Ok(()),
        }
    }

    fn changed(&mut self, change: Change) {
        if self.started {
            self.observer.change(self.clock.now, change);
        }
    }

    fn stuck(&self, task: TaskId) -> SimError {
        let after = self.patience;
        SimError::Stuck { task, after }
    }

    fn forbid(&self, bad: bool, task: TaskId, what: &'static str) -> Result<(), SimError> {
        let at = self.clock.now;
        if bad {
            return Err(SimError::Unsafe { at, task, what });
        }
        Ok(())
    }

    /// Asks for the admission of a task as another, unless it has gone.
    fn change(&mut self, id: TaskId, class: Class) -> Result<(), SimError> {
        if !self.loaded(id) {
            return Ok(());
        }
        self.at_once()?;
        let spec = TaskSpec {
            class,
            ..self.sim(id).spec.clone()
        };
        let verdict = self.scheduler.change(self.clock.now, id, &spec);
        let change = match verdict {
            Ok(_) => {
                self.agent(id).ready = false;
                Change::Admitted(id)
            }
            Err(_) => Change::Refused(id),
        };
        self.changed(change);
        self.follow()
    }

    /// Asks for the admission of a task. False if it is refused.
    fn register(&mut self, task: TaskId, spec: TaskSpec) -> Result<bool, SimError> {
        self.at_once()?;
        let verdict = self.scheduler.register(self.clock.now, task, spec);
        let admitted = verdict.is_ok();
        match verdict {
            Ok(volume) => {
                self.report.task(task).volume = volume;
                self.changed(Change::Admitted(task));
            }
            Err(refusal) => {
                self.report.task(task).refused = Some(refusal.to_string());
                self.changed(Change::Refused(task));
            }
        }
        self.follow()?;
        Ok(admitted)
    }

    /// Tells the scheduler, and does what follows from that.
    fn tell(&mut self, event: Event) -> Result<(), SimError> {
        self.hand_in(event)?;
        self.follow()
    }

    fn hand_in(&mut self, event: Event) -> Result<(), SimError> {
        self.at_once()?;
        let at = self.clock.now;
        self.scheduler
            .handle(at, event)
            .map_err(|error| SimError::Refused { at, error })
    }

    /// Carries out what the scheduler commands after an input, and tells it the answers.
    fn follow(&mut self) -> Result<(), SimError> {
        loop {
            if self.scenario.checks == Checks::Every {
                let at = self.clock.now;
                self.scheduler
                    .check_invariants()
                    .map_err(|error| SimError::Invariant { at, error })?;
            }
            while let Some(command) = self.scheduler.poll_command() {
                self.obey(command)?;
            }
            let Some(answer) = self.answers.pop_front() else {
                return Ok(());
            };
            self.hand_in(answer)?;
        }
    }

    fn loaded(&self, id: TaskId) -> bool {
        self.agents[id.0 as usize].stage == Stage::Loaded
    }
}
