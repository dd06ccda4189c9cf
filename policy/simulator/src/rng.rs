//! A small generator of reproducible numbers (splitmix64).

/// Gives the same numbers for the same seed, on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `least..=most`; `least` if the range is empty.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        let span = u128::from(most.saturating_sub(least)) + 1;
        let part = (u128::from(self.number()) * span) >> 64;
        least + u64::try_from(part).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_their_range_and_reach_its_ends() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[usize::try_from(rng.within(5, 7)).unwrap() - 5] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(rng.within(9, 3), 9);
        let whole = rng.within(0, u64::MAX);
        assert_ne!(whole, rng.within(0, u64::MAX));
    }
}
