//! How far a job is in its script.

use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::Nanos;

use super::{COMPUTE, QUEUES, Script, Speeds, UNITS_PER_BYTE, queue};

/// The steps that have ended, and what is left of those under way.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    ended: [u32; QUEUES],
    /// What is left of the step under way, in units of work; none while the queue waits or is empty.
    rest: [Option<u128>; QUEUES],
}

/// Of one nanosecond or byte.
const fn units(queue: usize) -> u128 {
    match queue {
        COMPUTE => 1,
        _ => UNITS_PER_BYTE,
    }
}

impl Progress {
    /// Begins the steps that wait for nothing.
    pub(crate) fn begin(script: &Script) -> Self {
        let mut progress = Self {
            ended: [0; QUEUES],
            rest: [None; QUEUES],
        };
        progress.begin_steps(script);
        progress
    }

    /// Whether a copy in `direction` is under way.
    pub(crate) fn copies(&self, direction: Direction) -> bool {
        self.rest[queue(direction)].is_some()
    }

    /// Whether all steps have ended.
    pub(crate) fn is_done(&self, script: &Script) -> bool {
        let queues = script.queues.iter().zip(self.ended);
        queues
            .into_iter()
            .all(|(steps, ended)| steps.len() == ended as usize)
    }

    /// The time to the next end of a step at these speeds; none if no step ever ends.
    pub(crate) fn next_end(&self, speeds: &Speeds) -> Option<Nanos> {
        let queues = self.rest.iter().zip(speeds);
        let moving = queues.filter(|(_, speed)| **speed > 0);
        let spans = moving.filter_map(|(rest, speed)| Some(rest.as_ref()?.div_ceil(*speed)));
        let span = spans.min()?;
        u64::try_from(span).ok().map(Nanos)
    }

    /// Works for `span`, at most to the next end of a step, and begins what waited for that.
    pub(crate) fn advance(&mut self, script: &Script, span: Nanos, speeds: &Speeds) {
        for (rest, speed) in self.rest.iter_mut().zip(speeds) {
            if let Some(work) = rest {
                *work = work.saturating_sub(speed.saturating_mul(u128::from(span.0)));
            }
        }
        self.begin_steps(script);
    }

    /// Ends the steps without work left, and begins those that wait for nothing any more.
    fn begin_steps(&mut self, script: &Script) {
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (queue, steps) in script.queues.iter().enumerate() {
                if self.rest[queue].is_none()
                    && let Some(step) = steps.get(self.ended[queue] as usize)
                    && step
                        .after
                        .iter()
                        .zip(self.ended)
                        .all(|(count, ended)| *count <= ended)
                {
                    self.rest[queue] = Some(u128::from(step.amount) * units(queue));
                }
                if self.rest[queue] == Some(0) {
                    self.rest[queue] = None;
                    self.ended[queue] += 1;
                    is_changed = true;
                }
            }
        }
    }
}
