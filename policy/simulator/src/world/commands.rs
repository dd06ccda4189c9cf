//! Carries out the scheduler's commands, without delay.

use rtswap_policy::scheduler::{Command, Event};
use rtswap_policy::units::Nanos;

use super::{Happening, World};
use crate::error::SimError;
use crate::record::{Observer, Violation};

impl<O: Observer> World<'_, O> {
    pub(super) fn obey(&mut self, command: Command) -> Result<(), SimError> {
        let now = self.clock.now;
        match command {
            Command::Grant { task, job } => self.start_job(task, job)?,
            Command::Revoke { task, job } => {
                let (least, most) = (self.scenario.shortest_drain, self.scenario.config.drain);
                let drain = Nanos(self.rng.within(least.0, most.0));
                self.clock.plan(now + drain, Happening::JobEnds(task, job));
            }
            Command::Swap {
                task,
                op,
                direction,
                target,
            } => self.start_swap(task, op, direction, target)?,
            Command::Abort { task, op } => self.abort_swap(task, op),
            Command::SetBudget {
                task,
                bytes,
                answers,
            } => {
                let agent = self.agent(task);
                let bytes = bytes.max(agent.holds(now));
                agent.budget = bytes;
                self.answers.push_back(Event::BudgetSet { task, bytes });
                self.refill(task);
                if let Some(answer) = answers {
                    self.allocates(task, answer.granted);
                }
            }
            Command::SetBackingStore { task, bytes } => {
                self.answers.push_back(Event::Backing { task, bytes });
            }
            Command::Account(account) => self.account(account),
            // Its programs request the rest at once.
            Command::Whole { .. } => {}
            Command::Violation { task, kind, detail } => {
                let violation = Violation {
                    at: now,
                    task,
                    kind,
                    detail,
                };
                if self.started {
                    self.observer.violation(&violation);
                }
                self.report.violations.push(violation);
            }
        }
        Ok(())
    }
}
