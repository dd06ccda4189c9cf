//! Jobs, from the request to the end.

use rtswap_policy::scheduler::{Event, JobAccount, JobKind, JobSeq, Sharing};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Nanos};

use super::{Happening, World};
use crate::error::SimError;
use crate::record::{Observer, Record};
use crate::scenario::{Arrivals, Execution};

impl<O: Observer> World<'_, O> {
    /// A program's clock says that its next job is due.
    pub(super) fn release(&mut self, id: TaskId) -> Result<(), SimError> {
        if !self.asks(id) {
            return Ok(());
        }
        let now = self.clock.now;
        let sim = self.sim(id);
        let next = match (&sim.arrivals, sim.spec.class) {
            (Arrivals::Periodic { .. }, Class::Realtime(timing)) => Some(now + timing.period),
            (Arrivals::Sporadic { jitter, .. }, Class::Realtime(timing)) => {
                let late = self.rng.within(0, jitter.0);
                Some(now + timing.period + Nanos(late))
            }
            (Arrivals::At(releases), _) => {
                let agent = self.agent(id);
                agent.release += 1;
                let next = releases.get(agent.release).copied();
                next.map(|at| self.report.start + at)
            }
            _ => None,
        };
        if let Some(at) = next {
            self.clock.plan(at, Happening::Request(id));
        }
        if self.agent(id).open.is_some() {
            self.agent(id).late_requests += 1;
            return Ok(());
        }
        self.request(id)
    }

    pub(super) fn request(&mut self, id: TaskId) -> Result<(), SimError> {
        self.begin_burst(id);
        let agent = self.agent(id);
        agent.jobs += 1;
        let job = JobSeq(agent.jobs);
        agent.open = Some(job);
        self.open += 1;
        self.tell(Event::JobRequested {
            task: id,
            job,
            kind: JobKind::Declared,
        })
    }

    pub(super) fn start_job(&mut self, id: TaskId, job: JobSeq) -> Result<(), SimError> {
        let exclusive = self.scenario.config.sharing == Sharing::Exclusive;
        let now = self.clock.now;
        let agent = self.agent(id);
        let out = agent.usage.swapped > Bytes::ZERO || agent.moving.is_some();
        let stranger = agent.open != Some(job);
        agent.running = Some(job);
        agent.granted = now;
        self.forbid(stranger, id, "is granted a job that it has not asked for")?;
        self.forbid(out, id, "runs without its memory")?;
        self.running += 1;
        let beside = exclusive && self.running > 1;
        self.forbid(beside, id, "runs beside another")?;
        let begins = now + self.scenario.config.dispatch_latency;
        if let Some(span) = self.agent(id).rest.or_else(|| self.span(id)) {
            self.count_part(id, span);
            self.clock.plan(begins + span, Happening::JobEnds(id, job));
        } else {
            self.clock.plan(begins, Happening::Script(id, job));
        }
        Ok(())
    }

    /// How long the job that starts now executes; none if its script says.
    fn span(&mut self, id: TaskId) -> Option<Nanos> {
        let sim = self.sim(id);
        let loading = match sim.spec.class {
            Class::Realtime(timing) if !self.started || !self.gets_ready(id) => Some(timing.wcet),
            _ => None,
        };
        if loading.is_some() {
            return loading;
        }
        match &sim.execution {
            Execution::Between { least, most } if sim.spec.class == Class::BestEffort => {
                Some(self.drawn(id, (*least, *most)))
            }
            Execution::Between { least, most } => Some(Nanos(self.rng.within(least.0, most.0))),
            Execution::Each(spans) => {
                let agent = self.agent(id);
                let span = spans[agent.execution % spans.len()];
                agent.execution += 1;
                Some(span)
            }
            Execution::Copies(_) => None,
        }
    }

    pub(super) fn job_ends(&mut self, id: TaskId, job: JobSeq) -> Result<(), SimError> {
        let agent = self.agent(id);
        if agent.running != Some(job) {
            return Ok(());
        }
        agent.running = None;
        agent.open = None;
        self.open -= 1;
        self.running -= 1;
        self.stop_copying(id);
        let ran = self.executed(id);
        self.tell(Event::JobCompleted { task: id, job })?;
        if matches!(self.sim(id).spec.class, Class::Realtime(_)) {
            self.gets_ready(id);
        } else if self.goes_on(id, ran)? {
            return Ok(());
        }
        if self.agent(id).late_requests > 0 {
            self.agent(id).late_requests -= 1;
            return self.request(id);
        }
        let next = match self.sim(id).arrivals {
            Arrivals::Greedy => Some(Nanos::ZERO),
            Arrivals::Thinks { think, .. } => Some(self.drawn(id, think)),
            _ => None,
        };
        if let Some(pause) = next.filter(|_| self.asks(id)) {
            self.clock
                .plan(self.clock.now + pause, Happening::Request(id));
        }
        Ok(())
    }

    /// The scheduler's account of a job that has ended.
    pub(super) fn account(&mut self, account: JobAccount) {
        if !self.started {
            return;
        }
        let realtime = matches!(self.sim(account.task).spec.class, Class::Realtime(_));
        if O::WATCHES {
            let agent = self.agent(account.task);
            let record = Record {
                account,
                out: core::mem::take(&mut agent.out),
                in_: core::mem::take(&mut agent.in_),
            };
            self.observer.job(&record);
        }
        self.report.add(account, realtime);
    }
}
