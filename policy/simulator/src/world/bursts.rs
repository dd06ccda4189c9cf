//! Bursts of best-effort programs. A program goes on where its job was revoked, so that its agent asks
//! for the rest at once; and it may do several jobs until its user thinks again.

use alloc::vec::Vec;

use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::Nanos;

use super::{Happening, World};
use crate::error::SimError;
use crate::record::{Burst, Observer};
use crate::rng::Rng;
use crate::scenario::{Arrivals, Scenario};

/// One generator for each program, from the seed and its name: a program draws the same in every company
/// and under every policy.
pub(super) fn generators(scenario: &Scenario) -> Vec<Rng> {
    let generator = |name: &str| {
        let letters = name.bytes();
        let mixed = letters.fold(scenario.seed, |seed, letter| {
            Rng::new(seed ^ u64::from(letter)).number()
        });
        Rng::new(mixed)
    };
    let tasks = scenario.tasks.iter();
    tasks.map(|task| generator(&task.spec.name)).collect()
}

impl<O: Observer> World<'_, O> {
    /// A time between the two, both included, for a best-effort program.
    pub(super) fn drawn(&mut self, id: TaskId, (least, most): (Nanos, Nanos)) -> Nanos {
        Nanos(self.programs[id.0 as usize].within(least.0, most.0))
    }

    /// Notes the request that a burst of a best-effort program begins with, unless one is under way.
    pub(super) fn begin_burst(&mut self, id: TaskId) {
        let sim = self.sim(id);
        if sim.spec.class != Class::BestEffort || self.agent(id).burst.is_some() {
            return;
        }
        let jobs = match sim.arrivals {
            Arrivals::Thinks { jobs, .. } => self.programs[id.0 as usize].within(jobs.0, jobs.1),
            _ => 1,
        };
        let now = self.clock.now;
        let agent = self.agent(id);
        agent.to_come = jobs - 1;
        agent.burst = Some(Burst {
            task: id,
            requested: now,
            ended: now,
            work: Nanos::ZERO,
            alone: Nanos::ZERO,
            parts: 0,
            complete: false,
        });
    }

    /// A job that executes for `span` was granted; all of it, or the rest of it after a revocation.
    pub(super) fn count_part(&mut self, id: TaskId, span: Nanos) {
        let dispatch = self.scenario.config.dispatch_latency;
        let agent = self.agent(id);
        let Some(burst) = &mut agent.burst else {
            return;
        };
        burst.parts += 1;
        if agent.rest.is_none() {
            agent.rest = Some(span);
            burst.work += span;
            burst.alone += dispatch + span;
        }
    }

    /// How long the job that ends now has executed since it was granted.
    pub(super) fn executed(&mut self, id: TaskId) -> Nanos {
        let (now, until) = (self.clock.now, self.until);
        let granted = self.agent(id).granted + self.scenario.config.dispatch_latency;
        if self.agent(id).burst.is_some() {
            self.report.task(id).work += now.min(until) - granted;
        }
        now - granted
    }

    /// Asks for what is left of a job that `ran` so long, or for the next of its burst. False if the
    /// burst is over.
    pub(super) fn goes_on(&mut self, id: TaskId, ran: Nanos) -> Result<bool, SimError> {
        let (now, asks) = (self.clock.now, self.asks(id));
        let pause = match self.sim(id).arrivals {
            Arrivals::Thinks { pause, .. } => pause,
            _ => Nanos::ZERO,
        };
        let agent = self.agent(id);
        let Some(mut burst) = agent.burst else {
            return Ok(false);
        };
        let rest = agent.rest.take().unwrap_or_default().saturating_sub(ran);
        if rest > Nanos::ZERO && asks {
            agent.rest = Some(rest);
            self.request(id)?;
            return Ok(true);
        }
        if rest == Nanos::ZERO && agent.to_come > 0 && asks {
            agent.to_come -= 1;
            burst.alone += pause;
            agent.burst = Some(burst);
            self.clock.plan(now + pause, Happening::Request(id));
            return Ok(true);
        }
        agent.burst = None;
        burst.ended = now;
        burst.complete = rest == Nanos::ZERO && agent.to_come == 0;
        if burst.complete {
            let report = self.report.task(id);
            report.bursts += 1;
            report.burst_max = report.burst_max.max(now - burst.requested);
        }
        self.observer.burst(&burst);
        Ok(false)
    }
}
