//! How far a job is in its script.

use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::Nanos;

use super::{QUEUES, Script, Speeds, UNITS_PER_BYTE, queue};

/// The steps that have ended, and what is left of those under way.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    ended: [u32; QUEUES],
    /// What is left of the step under way; none while the queue waits or is empty.
    rest: [Option<Rest>; QUEUES],
}

/// What is left of a step. Its bytes flow once its time is over.
#[derive(Clone, Copy, Debug)]
struct Rest {
    span: Nanos,
    /// Bytes in units.
    units: u128,
}

impl Rest {
    const fn is_done(&self) -> bool {
        self.span.0 == 0 && self.units == 0
    }
}

/// The units that a queue copies in a nanosecond.
const fn speed(speeds: &Speeds, queue: usize) -> u128 {
    match queue {
        0 => 0,
        copies => speeds[copies - 1],
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

    /// The time until a step next ends or begins to copy, at these speeds; none if that never happens.
    pub(crate) fn next_end(&self, speeds: &Speeds) -> Option<Nanos> {
        let spans = self.rest.iter().enumerate().filter_map(|(queue, rest)| {
            let rest = rest.as_ref()?;
            if rest.span > Nanos::ZERO {
                return Some(rest.span);
            }
            match speed(speeds, queue) {
                0 => None,
                speed => u64::try_from(rest.units.div_ceil(speed)).ok().map(Nanos),
            }
        });
        spans.min()
    }

    /// Works for `span`, at most what [`Self::next_end`] says, and begins what waited for that.
    pub(crate) fn advance(&mut self, script: &Script, span: Nanos, speeds: &Speeds) {
        for (queue, rest) in self.rest.iter_mut().enumerate() {
            let Some(rest) = rest else {
                continue;
            };
            if rest.span > Nanos::ZERO {
                rest.span = rest.span.saturating_sub(span);
            } else {
                let moved = speed(speeds, queue).saturating_mul(u128::from(span.0));
                rest.units = rest.units.saturating_sub(moved);
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
                    self.rest[queue] = Some(Rest {
                        span: step.span,
                        units: u128::from(step.bytes.0) * UNITS_PER_BYTE,
                    });
                }
                if self.rest[queue].is_some_and(|rest| rest.is_done()) {
                    self.rest[queue] = None;
                    self.ended[queue] += 1;
                    is_changed = true;
                }
            }
        }
    }
}
