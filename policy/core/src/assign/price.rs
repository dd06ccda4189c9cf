//! What volumes cost: so much per chunk and so much for swapping at all, per task.

use alloc::vec::Vec;

use super::problem::Problem;

/// In units of 2⁻⁶⁴ of any time, rounded down.
pub(super) struct Price {
    pub(super) rates: Vec<u128>,
    pub(super) charges: Vec<u128>,
    /// Places by increasing rate.
    order: Vec<usize>,
}

impl Price {
    pub(super) fn new(rates: Vec<u128>, charges: Vec<u128>) -> Self {
        let mut order: Vec<_> = (0..rates.len()).collect();
        order.sort_by_key(|&place| rates[place]);
        Self {
            rates,
            charges,
            order,
        }
    }

    /// Each charge spread over all chunks that a task may give: no more than `self` for volumes
    /// within `caps`.
    pub(super) fn spread(&self, caps: &[u64]) -> Self {
        let rates = self.rates.iter().zip(&self.charges).zip(caps);
        let spread = rates.map(|((rate, charge), &cap)| {
            rate.saturating_add(charge.checked_div(u128::from(cap)).unwrap_or(0))
        });
        Self::new(spread.collect(), Vec::new())
    }

    pub(super) fn of(&self, volumes: &[u64]) -> u128 {
        let priced = |(place, &chunks): (usize, &u64)| match chunks {
            0 => 0,
            k => self.rates[place]
                .saturating_mul(u128::from(k))
                .saturating_add(self.charges[place]),
        };
        volumes
            .iter()
            .enumerate()
            .map(priced)
            .fold(0, u128::saturating_add)
    }

    /// Volumes of at most `most` each within `caps` that add up to what M = `most` needs, cheapest
    /// first.
    /// For a given sum nothing costs less, charges apart.
    pub(super) fn fill(&self, problem: &Problem<'_>, caps: &[u64], most: u64) -> Vec<u64> {
        let mut volumes = alloc::vec![0; caps.len()];
        self.each(problem, caps, most, |place, given| volumes[place] = given);
        volumes
    }

    /// What `fill` costs without charges.
    pub(super) fn moving(&self, problem: &Problem<'_>, caps: &[u64], most: u64) -> u128 {
        let mut sum = 0_u128;
        self.each(problem, caps, most, |place, given| {
            sum = sum.saturating_add(self.rates[place].saturating_mul(u128::from(given)));
        });
        sum
    }

    fn each(
        &self,
        problem: &Problem<'_>,
        caps: &[u64],
        most: u64,
        mut give: impl FnMut(usize, u64),
    ) {
        let mut left = problem.sum(most);
        for &place in &self.order {
            if left == 0 {
                return;
            }
            let given = caps[place].min(most).min(left);
            give(place, given);
            left -= given;
        }
    }

    /// The M in `range` with the least `moving`. Bisection finds it because `moving` is convex in M:
    /// `fill` solves a linear program with integral solutions and a right side convex in M.
    pub(super) fn best_most(&self, problem: &Problem<'_>, caps: &[u64], range: (u64, u64)) -> u64 {
        let (mut least, mut most) = range;
        while least < most {
            let middle = least + (most - least) / 2;
            let here = self.moving(problem, caps, middle);
            if self.moving(problem, caps, middle + 1) < here {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        least
    }
}
