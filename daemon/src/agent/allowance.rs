//! Bounds the processor time that strangers' requests cost. One may cost the daemon more than the process that
//! makes it, and tasks with deadlines compute on the same processors.

use rtswap_policy::units::{Nanos, Time};

/// What may be spent.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The work that is done at once.
    pub burst: Nanos,
    /// After that, one of so many parts of the time.
    pub share: u64,
    /// The next burst after a pause.
    pub next: Nanos,
}

/// The work that was done and is not paid off by the time since.
#[derive(Debug)]
pub struct Allowance {
    terms: Terms,
    spent: Nanos,
    at: Time,
    resumes: Option<Time>,
}

impl Allowance {
    /// Nothing was done yet.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            spent: Nanos::ZERO,
            at: Time::ZERO,
            resumes: None,
        }
    }

    /// Charges `work`. Returns whether the next must wait until [`Self::resumes`].
    pub fn charge(&mut self, now: Time, work: Nanos) -> bool {
        let Terms { burst, share, next } = self.terms;
        self.spent = self.owed(now) + work;
        self.at = now;
        if self.spent > burst {
            let excess = self.spent.0 - (burst.0 - next.0);
            self.resumes = Some(now + Nanos(excess * share));
        }
        self.resumes.is_some()
    }

    /// The work that is not paid off yet.
    pub fn owed(&self, now: Time) -> Nanos {
        let paid = (now - self.at).0 / self.terms.share;
        Nanos(self.spent.0.saturating_sub(paid))
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

    const TERMS: Terms = Terms {
        burst: Nanos(20_000_000),
        share: 10,
        next: Nanos(1_000_000),
    };

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
    fn a_flood_costs_its_share_of_the_time() {
        let mut allowance = Allowance::new(TERMS);
        let first = work_for_a_second(&mut allowance, 0);
        assert!((100_000_000..125_000_000).contains(&first), "{first}");
        let second = work_for_a_second(&mut allowance, 1_000_000_000);
        assert!((95_000_000..105_000_000).contains(&second), "{second}");
        let later = Time(2_000_000_000);
        assert!(allowance.owed(later) > Nanos::ZERO);
        assert_eq!(allowance.owed(later + Nanos(200_000_000)), Nanos::ZERO);
    }

    #[test]
    fn a_burst_waits_for_nothing() {
        let mut allowance = Allowance::new(TERMS);
        let now = Time(1_000_000_000);
        assert!((0..600).all(|_| !allowance.charge(now, WORK)));
        assert!((0..100).any(|_| allowance.charge(now, WORK)));
        let resumes = allowance.resumes().unwrap();
        assert!(!allowance.resume(now) && allowance.resume(resumes));
        assert_eq!(allowance.resumes(), None);
    }
}
