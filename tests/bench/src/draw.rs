//! Numbers that look random and are the same in each run: SplitMix64 (Steele, Lea and Flood, "Fast
//! splittable pseudorandom number generators", 2014).

/// A sequence of them.
pub(crate) struct Draw(pub u64);

impl Draw {
    /// The next one below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
