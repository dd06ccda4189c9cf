//! Steps from one instant to the next: tells the scheduler what happens, carries its commands
//! out, and asks when to wake it.

use alloc::vec::Vec;

use rtswap_policy::scheduler::{
    Command, Direction, Event, EventError, InvariantError, JobKind, JobSeq, Phase, Scheduler,
    SwapOutcome, Usage, WantSeq,
};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::agent::{Agent, Happening, Moving};
use crate::clock::Clock;
use crate::report::{Report, TaskReport};
use crate::rng::Rng;
use crate::scenario::{Arrivals, Scenario, SimTask};

/// A run that could not be made. All but the last would be bugs of scheduler or simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The scheduler refused an event.
    #[error("at {} ns the scheduler refused an event: {error}", .at.0)]
    Refused {
        /// When.
        at: Time,
        /// Why.
        error: EventError,
    },
    /// An invariant does not hold.
    #[error("at {} ns: {error}", .at.0)]
    Invariant {
        /// When.
        at: Time,
        /// Which.
        error: InvariantError,
    },
    /// The scheduler let an agent do what it must not.
    #[error("at {} ns task {} {what}", .at.0, .task.0)]
    Unsafe {
        /// When.
        at: Time,
        /// Who.
        task: TaskId,
        /// What.
        what: &'static str,
    },
    /// A task did not come to the end of its loading, or of its last job.
    #[error("task {} is stuck for {after}: the others leave it no memory or no time", .task.0)]
    Stuck {
        /// Who.
        task: TaskId,
        /// How long it had.
        after: Nanos,
    },
}

/// How long each task may take to load, and its last job to end.
const PATIENCE: Nanos = Nanos(60_000_000_000);

/// Simulates `scenario`: all tasks register and load one after another, each realtime task runs
/// until it is ready, and from then on jobs are asked for during `duration`. Every job asked for
/// is run to its end.
pub fn run(scenario: &Scenario) -> Result<Report, SimError> {
    let mut world = World::new(scenario);
    for place in 0..scenario.tasks.len() {
        world.load(TaskId(place as u32))?;
    }
    for place in 0..scenario.tasks.len() {
        world.warm(TaskId(place as u32))?;
    }
    world.begin();
    let end = world.clock.now + scenario.duration;
    world.until = end;
    // The clock gets that far even if nothing else happens.
    for at in [end, end + PATIENCE] {
        world.clock.plan(at + Nanos(1), Happening::Timer);
    }
    while world.clock.now <= end + PATIENCE {
        world.step()?;
        if world.clock.now > end && world.agents.iter().all(|agent| agent.open.is_none()) {
            return Ok(world.report);
        }
    }
    let stuck = world.agents.iter().position(|agent| agent.open.is_some());
    Err(SimError::Stuck {
        task: TaskId(stuck.unwrap_or(0) as u32),
        after: PATIENCE,
    })
}

struct World<'a> {
    scenario: &'a Scenario,
    scheduler: Scheduler,
    clock: Clock<Happening>,
    rng: Rng,
    agents: Vec<Agent>,
    report: Report,
    /// Jobs are asked for until then; nothing is reported before they are.
    until: Time,
    counting: bool,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let reports = scenario.tasks.iter().map(|task| TaskReport {
            name: task.spec.name.clone(),
            ..TaskReport::default()
        });
        Self {
            scenario,
            scheduler: Scheduler::new(scenario.config),
            clock: Clock::new(),
            rng: Rng::new(scenario.seed),
            agents: alloc::vec![Agent::default(); scenario.tasks.len()],
            report: Report {
                tasks: reports.collect(),
                ..Report::default()
            },
            until: Time::MAX,
            counting: false,
        }
    }

    fn sim(&self, id: TaskId) -> &'a SimTask {
        &self.scenario.tasks[id.0 as usize]
    }

    fn agent(&mut self, id: TaskId) -> &mut Agent {
        &mut self.agents[id.0 as usize]
    }

    fn refused(&self, id: TaskId) -> bool {
        self.report.tasks[id.0 as usize].refused.is_some()
    }

    fn load(&mut self, id: TaskId) -> Result<(), SimError> {
        let spec = self.sim(id).spec.clone();
        let memory = spec.memory;
        self.tell(Event::Register { task: id, spec })?;
        if self.refused(id) {
            return Ok(());
        }
        self.tell(Event::Attach {
            task: id,
            usage: Usage::default(),
            backing: Bytes::ZERO,
            open: None,
        })?;
        self.tell(Event::Want {
            task: id,
            want: WantSeq(1),
            bytes: memory.footprint,
        })?;
        let footprint = memory.footprint;
        self.wait_for(id, |world| world.agent(id).budget >= footprint)?;
        let usage = Usage {
            resident: memory.footprint,
            swapped: Bytes::ZERO,
            arena: memory.swappable,
        };
        self.agent(id).usage = usage;
        self.tell(Event::Usage { task: id, usage })
    }

    /// Runs jobs of a realtime task until it is ready.
    fn warm(&mut self, id: TaskId) -> Result<(), SimError> {
        if self.refused(id) || matches!(self.sim(id).spec.class, Class::BestEffort) {
            return Ok(());
        }
        let ready = |world: &Self| {
            let status = world.scheduler.state().task(id);
            status.is_some_and(|task| task.phase == Phase::Ready)
        };
        self.request(id)?;
        self.wait_for(id, |world| world.agent(id).open.is_none())?;
        if ready(self) {
            return Ok(());
        }
        Err(SimError::Stuck {
            task: id,
            after: PATIENCE,
        })
    }

    fn wait_for(&mut self, id: TaskId, done: impl Fn(&mut Self) -> bool) -> Result<(), SimError> {
        let bound = self.clock.now + PATIENCE;
        while !done(self) {
            let over = self.clock.next().is_none() && self.scheduler.poll_timeout().is_none();
            if self.clock.now > bound || over {
                return Err(SimError::Stuck {
                    task: id,
                    after: PATIENCE,
                });
            }
            self.step()?;
        }
        Ok(())
    }

    /// Plans the first requests, once whatever loading has left is over: two of the longest
    /// periods from now.
    fn begin(&mut self) {
        let periods = self
            .scenario
            .tasks
            .iter()
            .map(|task| match task.spec.class {
                Class::Realtime(timing) => timing.period,
                Class::BestEffort => Nanos::ZERO,
            });
        let longest = periods.max().unwrap_or(Nanos::ZERO);
        let start = self.clock.now + longest + longest;
        self.counting = true;
        for place in 0..self.agents.len() {
            let id = TaskId(place as u32);
            let offset = match self.sim(id).arrivals {
                Arrivals::Periodic { offset } | Arrivals::Sporadic { offset, .. } => offset,
                Arrivals::Greedy => Nanos::ZERO,
            };
            if !self.refused(id) {
                self.clock.plan(start + offset, Happening::Request(id));
            }
        }
    }

    /// What happens next: the scheduler's timer, unless something comes before it.
    fn step(&mut self) -> Result<(), SimError> {
        if let Some(at) = self.scheduler.poll_timeout()
            && self.clock.next().is_none_or(|next| at < next)
        {
            self.clock.plan(at, Happening::Timer);
        }
        match self.clock.pop() {
            None => Ok(()),
            Some(Happening::Timer) => self.tell(Event::Timer),
            Some(Happening::Request(id)) => self.arrive(id),
            Some(Happening::JobEnds(task, job)) => {
                let agent = self.agent(task);
                if agent.running != Some(job) {
                    return Ok(());
                }
                agent.running = None;
                agent.open = None;
                self.tell(Event::JobCompleted { task, job })?;
                if self.agent(task).late_requests > 0 {
                    self.agent(task).late_requests -= 1;
                    return self.request(task);
                }
                if self.sim(task).arrivals == Arrivals::Greedy && self.counting {
                    self.clock.plan(self.clock.now, Happening::Request(task));
                }
                Ok(())
            }
            Some(Happening::SwapEnds(task, op)) => {
                let now = self.clock.now;
                let chunk = self.scenario.config.chunk;
                let agent = self.agent(task);
                let Some(moving) = agent.moving.filter(|moving| moving.op == op) else {
                    return Ok(());
                };
                let (at, swapped) = moving.stop(now, chunk);
                let reached = swapped == moving.target;
                if at > now || !(reached || moving.aborted) {
                    return Ok(());
                }
                agent.moving = None;
                agent.moved(swapped);
                let over = agent.usage.resident > agent.budget;
                self.forbid(over, task, "has swapped in beyond its budget")?;
                self.tell(Event::SwapEnded {
                    task,
                    op,
                    swapped,
                    took: now - moving.started,
                    outcome: if reached {
                        SwapOutcome::Done
                    } else {
                        SwapOutcome::Aborted
                    },
                })
            }
        }
    }

    /// A program's clock says that its next job is due.
    fn arrive(&mut self, id: TaskId) -> Result<(), SimError> {
        if self.clock.now > self.until {
            return Ok(());
        }
        if let Class::Realtime(timing) = self.sim(id).spec.class {
            let jitter = match self.sim(id).arrivals {
                Arrivals::Sporadic { jitter, .. } => self.rng.within(0, jitter.0),
                Arrivals::Periodic { .. } | Arrivals::Greedy => 0,
            };
            let next = self.clock.now + timing.period + Nanos(jitter);
            self.clock.plan(next, Happening::Request(id));
        }
        if self.agent(id).open.is_some() {
            self.agent(id).late_requests += 1;
            return Ok(());
        }
        self.request(id)
    }

    fn request(&mut self, id: TaskId) -> Result<(), SimError> {
        let agent = self.agent(id);
        agent.jobs += 1;
        let job = JobSeq(agent.jobs);
        agent.open = Some(job);
        self.tell(Event::JobRequested {
            task: id,
            job,
            kind: JobKind::Declared,
        })
    }

    fn forbid(&self, bad: bool, task: TaskId, what: &'static str) -> Result<(), SimError> {
        let at = self.clock.now;
        if bad {
            return Err(SimError::Unsafe { at, task, what });
        }
        Ok(())
    }

    /// Tells the scheduler and carries out what it commands.
    fn tell(&mut self, event: Event) -> Result<(), SimError> {
        let at = self.clock.now;
        self.scheduler
            .handle(at, event)
            .map_err(|error| SimError::Refused { at, error })?;
        self.scheduler
            .state()
            .check_invariants()
            .map_err(|error| SimError::Invariant { at, error })?;
        while let Some(command) = self.scheduler.poll_command() {
            self.obey(command)?;
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) -> Result<(), SimError> {
        let now = self.clock.now;
        match command {
            Command::Admitted { task, volume } => {
                self.report.tasks[task.0 as usize].volume = volume;
            }
            Command::Refused { task, reason } => {
                self.report.tasks[task.0 as usize].refused = Some(reason);
            }
            Command::Grant { task, job } => self.start_job(task, job)?,
            Command::Revoke { task, job } => {
                let drain = self.rng.within(0, self.scenario.config.drain.0);
                self.clock
                    .plan(now + Nanos(drain), Happening::JobEnds(task, job));
            }
            Command::Swap {
                task,
                op,
                direction,
                target,
            } => {
                let config = &self.scenario.config;
                let cost = match direction {
                    Direction::Out => config.swap_cost.out,
                    Direction::In => config.swap_cost.in_,
                };
                let from = self.agents[task.0 as usize].usage.swapped;
                let span = cost.bound(Bytes(from.0.abs_diff(target.0)), config.chunk);
                let busy = self.agent(task).moving.is_some() || self.agent(task).running.is_some();
                self.forbid(busy, task, "is swapped while it runs or swaps")?;
                self.agent(task).moving = Some(Moving {
                    op,
                    direction,
                    from,
                    target,
                    started: now,
                    base: cost.base,
                    per_chunk: cost.chunk_time(config.chunk),
                    aborted: false,
                });
                self.clock.plan(now + span, Happening::SwapEnds(task, op));
            }
            Command::Abort { task, op } => {
                let chunk = self.scenario.config.chunk;
                if let Some(moving) = &mut self.agent(task).moving
                    && moving.op == op
                {
                    moving.aborted = true;
                    let (at, _) = moving.stop(now, chunk);
                    self.clock.plan(at, Happening::SwapEnds(task, op));
                }
            }
            Command::SetBudget { task, bytes, .. } => {
                let agent = self.agent(task);
                agent.budget = bytes.max(agent.usage.resident);
                let bytes = agent.budget;
                return self.tell(Event::BudgetSet { task, bytes });
            }
            Command::SetVolume { task, bytes } => {
                return self.tell(Event::Backing { task, bytes });
            }
            Command::Account(account) => {
                if self.counting {
                    self.report.add(account);
                }
            }
            Command::Violation { task, kind, detail } => {
                self.report.violations.push((task, kind, detail));
            }
        }
        Ok(())
    }

    fn start_job(&mut self, task: TaskId, job: JobSeq) -> Result<(), SimError> {
        let sim = self.sim(task);
        let agent = self.agent(task);
        agent.running = Some(job);
        let out = agent.usage.swapped > Bytes::ZERO || agent.moving.is_some();
        self.forbid(out, task, "runs without its memory")?;
        let others = self.agents.iter().filter(|agent| agent.running.is_some());
        let shared = others.count() > 1 && self.exclusive();
        self.forbid(shared, task, "runs beside another")?;
        let span = match sim.spec.class {
            Class::Realtime(timing) => self.rng.within(sim.shortest.0, timing.wcet.0),
            Class::BestEffort => sim.shortest.0,
        };
        let end = self.clock.now + Nanos(span);
        self.clock.plan(end, Happening::JobEnds(task, job));
        Ok(())
    }

    fn exclusive(&self) -> bool {
        self.scenario.config.sharing == rtswap_policy::scheduler::Sharing::Exclusive
    }
}
