//! Bounds the processor time that connections without a session cost. A connection costs the daemon more than the
//! process that makes it, and tasks with deadlines compute on the same processors.

use rtswap_policy::units::{Nanos, Time};

/// The work that is done at once: hundreds of programs that start together need less.
const BURST: Nanos = Nanos(20_000_000);

/// After that, one of so many parts of the time.
const SHARE: u64 = 10;

/// The next burst after a pause.
const NEXT: Nanos = Nanos(1_000_000);

/// The work that was done and is not paid off by the time since.
#[derive(Debug, Default)]
pub struct Allowance {
    spent: Nanos,
    at: Time,
    resumes: Option<Time>,
}

impl Allowance {
    /// Charges `work`. Returns whether the next must wait until [`Self::resumes`].
    pub fn charge(&mut self, now: Time, work: Nanos) -> bool {
        let paid = (now - self.at).0 / SHARE;
        self.spent = Nanos(self.spent.0.saturating_sub(paid)) + work;
        self.at = now;
        if self.spent > BURST {
            let excess = self.spent.0 - (BURST.0 - NEXT.0);
            self.resumes = Some(now + Nanos(excess * SHARE));
        }
        self.resumes.is_some()
    }

    /// When work goes on, while it waits.
    pub fn resumes(&self) -> Option<Time> {
        self.resumes
    }

    /// Whether work that waited goes on now.
    pub fn resume(&mut self, now: Time) -> bool {
        self.resumes.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Nanos = Nanos(30_000);

    /// Works whenever it may for a second; the sum.
    fn work_for_a_second(allowance: &mut Allowance, from: u64) -> u64 {
        let mut worked = 0;
        for step in 0..1_000_000_000 / WORK.0 {
            let now = Time(from + step * WORK.0);
            allowance.resume(now);
            if allowance.resumes().is_none() {
                allowance.charge(now, WORK);
                worked += WORK.0;
            }
        }
        worked
    }

    #[test]
    fn a_flood_costs_a_tenth_of_the_time() {
        let mut allowance = Allowance::default();
        let first = work_for_a_second(&mut allowance, 0);
        assert!((100_000_000..125_000_000).contains(&first), "{first}");
        let second = work_for_a_second(&mut allowance, 1_000_000_000);
        assert!((95_000_000..105_000_000).contains(&second), "{second}");
    }

    #[test]
    fn a_crowd_of_hundreds_waits_for_nothing() {
        let mut allowance = Allowance::default();
        let now = Time(1_000_000_000);
        assert!((0..600).all(|_| !allowance.charge(now, WORK)));
        assert!((0..100).any(|_| allowance.charge(now, WORK)));
        let resumes = allowance.resumes().unwrap();
        assert!(!allowance.resume(now) && allowance.resume(resumes));
        assert_eq!(allowance.resumes(), None);
    }
}
