//! Programs come, load, get ready and go.

use rtswap_policy::scheduler::{BudgetRequestSeq, Event, Phase, Usage};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Nanos};

use super::{Happening, World};
use crate::agent::{Agent, Stage};
use crate::error::SimError;
use crate::record::{Change, Observer};
use crate::scenario::Arrivals;

/// The number of the one request by which a program gets the budget to load.
const REQUEST: BudgetRequestSeq = BudgetRequestSeq(1);

impl<O: Observer> World<'_, O> {
    /// Runs all that comes before the start: the tasks that are there from the beginning register and
    /// load, then each realtime task runs until it is ready.
    pub(super) fn prepare(&mut self) -> Result<(), SimError> {
        for id in self.ids() {
            if self.sim(id).arrives.is_none() {
                self.load(id)?;
                self.wait_for(id, |world| world.agent(id).stage != Stage::Loading)?;
            }
        }
        for id in self.ids() {
            let realtime = matches!(self.sim(id).spec.class, Class::Realtime(_));
            if realtime && self.loaded(id) {
                self.request(id)?;
                self.wait_for(id, |world| world.agent(id).open.is_none())?;
                if !self.gets_ready(id) {
                    return Err(self.stuck(id));
                }
            }
        }
        // Whatever loading has left is over by then.
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
        self.report.start = start;
        self.until = start + self.scenario.duration;
        self.clock.plan(start, Happening::Start);
        // The clock gets that far even if nothing else happens.
        for at in [self.until, self.until + self.patience] {
            self.clock.plan(at + Nanos(1), Happening::Passes);
        }
        Ok(())
    }

    pub(super) fn start(&mut self) {
        let start = self.clock.now;
        self.started = true;
        self.observer.start(start);
        let duration = self.scenario.duration;
        for &(at, bytes) in &self.scenario.capacity {
            if at <= duration {
                self.clock.plan(start + at, Happening::Capacity(bytes));
            }
        }
        for &(at, id, class) in &self.scenario.classes {
            self.clock.plan(start + at, Happening::Class(id, class));
        }
        for id in self.ids() {
            let sim = self.sim(id);
            if let Some(departure) = sim.departs.filter(|departure| departure.at <= duration) {
                self.clock
                    .plan(start + departure.at, Happening::Departs(id));
            }
            match sim.arrives {
                Some(at) if at <= duration => self.clock.plan(start + at, Happening::Arrives(id)),
                None if self.loaded(id) => {
                    if self.agent(id).ready {
                        self.report.task(id).ready = Some(start);
                    }
                    self.begin(id);
                }
                _ => {}
            }
        }
    }

    fn wait_for(&mut self, id: TaskId, done: impl Fn(&mut Self) -> bool) -> Result<(), SimError> {
        let bound = self.clock.now + self.patience;
        while !done(self) {
            let over = self.clock.next().is_none() && self.scheduler.poll_timeout().is_none();
            if self.clock.now > bound || over {
                return Err(self.stuck(id));
            }
            self.step()?;
        }
        if self.report.task(id).out_of_memory {
            return Err(SimError::OutOfMemory { task: id });
        }
        Ok(())
    }

    /// Registers and, if admitted, asks for the memory.
    pub(super) fn load(&mut self, id: TaskId) -> Result<(), SimError> {
        let spec = self.sim(id).spec.clone();
        let footprint = spec.memory.footprint;
        if !self.register(id, spec)? {
            return Ok(());
        }
        self.agent(id).stage = Stage::Loading;
        self.tell(Event::Attach {
            task: id,
            usage: Usage::default(),
            backing: Bytes::ZERO,
            open: None,
        })?;
        self.tell(Event::BudgetRequested {
            task: id,
            want: REQUEST,
            bytes: footprint,
        })
    }

    /// The answer to the question for the memory.
    pub(super) fn allocates(&mut self, id: TaskId, granted: bool) {
        if !granted {
            self.report.task(id).out_of_memory = true;
            self.clock.plan(self.clock.now, Happening::Departs(id));
            return;
        }
        let memory = self.sim(id).spec.memory;
        let usage = Usage {
            resident: memory.footprint,
            swapped: Bytes::ZERO,
            arena: memory.swappable,
        };
        let agent = self.agent(id);
        agent.usage = usage;
        agent.stage = Stage::Loaded;
        self.answers.push_back(Event::Usage { task: id, usage });
        if self.started {
            self.begin(id);
        }
    }

    /// Plans the first request, of a program that has loaded and after the start.
    fn begin(&mut self, id: TaskId) {
        let now = self.clock.now;
        let at = match &self.sim(id).arrivals {
            Arrivals::Periodic { offset } | Arrivals::Sporadic { offset, .. } => now + *offset,
            Arrivals::At(releases) => {
                let Some(first) = releases.first() else {
                    return;
                };
                self.report.start + *first
            }
            Arrivals::Greedy => now,
            Arrivals::Thinks { think, .. } => now + self.drawn(id, *think),
        };
        self.clock.plan(at, Happening::Request(id));
    }

    /// Whether the jobs of a realtime task have deadlines; noted when it turns true.
    pub(super) fn gets_ready(&mut self, id: TaskId) -> bool {
        if self.agent(id).ready {
            return true;
        }
        let status = self.scheduler.state().task(id);
        if !status.is_some_and(|status| status.phase == Phase::Ready) {
            return false;
        }
        self.agent(id).ready = true;
        if self.started {
            self.report.task(id).ready = Some(self.clock.now);
            self.changed(Change::Ready(id));
        }
        true
    }

    /// The process dies, wherever its agent is.
    pub(super) fn depart(&mut self, id: TaskId) -> Result<(), SimError> {
        if self.agent(id).stage == Stage::Away {
            return Ok(());
        }
        self.open -= usize::from(self.agent(id).open.is_some());
        self.running -= usize::from(self.agent(id).running.is_some());
        *self.agent(id) = Agent::default();
        for engine in [&mut self.out, &mut self.in_] {
            if *engine == Some(id) {
                *engine = None;
            }
        }
        self.stop_copying(id);
        self.changed(Change::Departed(id));
        self.tell(Event::Detach { task: id })?;
        self.tell(Event::Unregister { task: id })?;
        let dying = self.sim(id).departs.map_or(Nanos::ZERO, |gone| gone.dying);
        self.clock
            .plan(self.clock.now + dying, Happening::Released(id));
        Ok(())
    }

    pub(super) fn released(&mut self, id: TaskId) -> Result<(), SimError> {
        let status = self.scheduler.state().task(id);
        if status.is_some_and(|status| status.dying > Bytes::ZERO) {
            return self.tell(Event::Released { task: id });
        }
        Ok(())
    }

    /// Whether the program still asks for jobs.
    pub(super) fn asks(&self, id: TaskId) -> bool {
        self.started && self.loaded(id) && self.clock.now <= self.until
    }
}
