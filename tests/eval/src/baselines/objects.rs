//! MO-VMM: one physical allocation per memory object, each a multiple of the driver's 2 MiB.
//!
//! The paper's Table II publishes how many objects of a model are smaller and larger than 2 MB and
//! how much they are together. A list with these counts and that sum is drawn; what it wastes
//! follows, and can be held against the table.

use rtswap_policy::units::Bytes;

use super::link::SMALLEST_CHUNK;
use rtswap_simulator::Rng;

/// Memory objects of one model in one resolution, the largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    sizes: Vec<Bytes>,
}

/// The smallest object is 4 KiB: the paper speaks of "a few KB".
const SMALLEST_BITS: u64 = 12;
const CHUNK_BITS: u64 = 21;

/// A memory allocator aligns each object so.
const ALIGNMENT: Bytes = Bytes(512);

impl Objects {
    /// `small` objects below 2 MiB and `large` ones above, together `total` in bytes. Sizes are
    /// spread evenly over powers of two; those of the large objects beyond 2 MiB are then scaled
    /// to give the sum.
    pub fn draw(rng: &mut Rng, small: usize, large: usize, total: Bytes) -> Self {
        let mut below: Vec<u64> = (0..small)
            .map(|_| octave(rng, SMALLEST_BITS, CHUNK_BITS - 1))
            .collect();
        let beyond: Vec<u64> = (0..large)
            .map(|_| octave(rng, SMALLEST_BITS, CHUNK_BITS + 4))
            .collect();
        let floor = large as u64 * SMALLEST_CHUNK.0;
        // Where the small ones leave the large ones too little, they are scaled down as well.
        let room = total.0.saturating_sub(floor);
        let sum: u64 = below.iter().sum();
        if sum > room {
            for size in &mut below {
                *size = scale(*size, room, sum).max(1);
            }
        }
        let rest = room.saturating_sub(below.iter().sum());
        let weight = beyond.iter().sum::<u64>().max(1);
        let mut sizes: Vec<Bytes> = below.into_iter().map(Bytes).collect();
        sizes.extend(
            beyond
                .into_iter()
                .map(|size| Bytes(SMALLEST_CHUNK.0 + scale(size, rest, weight))),
        );
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        Self { sizes }
    }

    /// The same objects, each scaled so that together they are about `total`: the same model in
    /// another resolution.
    #[must_use]
    pub fn scaled(&self, total: Bytes) -> Self {
        let payload = self.payload().0.max(1);
        let scaled = |size: &Bytes| Bytes(scale(size.0, total.0, payload).max(1));
        Self {
            sizes: self.sizes.iter().map(scaled).collect(),
        }
    }

    /// Their sizes, the largest first.
    pub fn sizes(&self) -> &[Bytes] {
        &self.sizes
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// How many are larger than the driver's 2 MiB.
    pub fn large(&self) -> usize {
        self.sizes
            .iter()
            .filter(|size| **size > SMALLEST_CHUNK)
            .count()
    }

    /// What the program asked for.
    pub fn payload(&self) -> Bytes {
        self.sizes.iter().copied().sum()
    }

    /// What it takes with an allocation per object.
    pub fn per_object(&self) -> Bytes {
        self.sizes
            .iter()
            .map(|size| size.round_up(SMALLEST_CHUNK))
            .sum()
    }

    /// What it takes one behind the other in uniform chunks of δ = `chunk`.
    pub fn packed(&self, chunk: Bytes) -> Bytes {
        let aligned: Bytes = self.sizes.iter().map(|size| size.round_up(ALIGNMENT)).sum();
        aligned.round_up(chunk)
    }

    /// The largest objects whose allocations together reach `volume`: how many, and what they
    /// take. All of them if they do not reach it.
    pub fn largest(&self, volume: Bytes) -> (usize, Bytes) {
        let mut taken = Bytes::ZERO;
        for (count, size) in self.sizes.iter().enumerate() {
            if taken >= volume {
                return (count, taken);
            }
            taken += size.round_up(SMALLEST_CHUNK);
        }
        (self.sizes.len(), taken)
    }
}

/// A size from 2^`least` up to 2^(`most` + 1), each power of two as likely as any other.
fn octave(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let power = 1 << rng.within(least, most);
    rng.within(power, 2 * power - 1)
}

/// `size` · `numerator` / `denominator`, rounded down.
fn scale(size: u64, numerator: u64, denominator: u64) -> u64 {
    (u128::from(size) * u128::from(numerator) / u128::from(denominator)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const KIB: u64 = 1 << 10;

    fn list(sizes: &[u64]) -> Objects {
        Objects {
            sizes: sizes.iter().copied().map(Bytes).collect(),
        }
    }

    #[test]
    fn each_object_takes_whole_allocations() {
        let objects = list(&[5 * MIB, 2 * MIB, MIB, 4 * KIB]);
        assert_eq!(objects.payload(), Bytes(8 * MIB + 4 * KIB));
        assert_eq!(objects.per_object(), Bytes(12 * MIB));
        assert_eq!(objects.packed(Bytes(2 * MIB)), Bytes(10 * MIB));
        assert_eq!(objects.packed(Bytes(64 * MIB)), Bytes(64 * MIB));
        assert_eq!(objects.large(), 1);
        assert_eq!(objects.largest(Bytes(MIB)), (1, Bytes(6 * MIB)));
        assert_eq!(objects.largest(Bytes(7 * MIB)), (2, Bytes(8 * MIB)));
        assert_eq!(objects.largest(Bytes(99 * MIB)), (4, Bytes(12 * MIB)));
        assert_eq!(objects.largest(Bytes::ZERO), (0, Bytes::ZERO));
    }

    #[test]
    fn packing_wastes_alignment_and_less_than_a_chunk() {
        let objects = list(&[2 * MIB - 100, 700, 1]);
        assert_eq!(objects.packed(Bytes(512)), Bytes(2 * MIB + 1024 + 512));
        assert_eq!(objects.packed(Bytes(2 * MIB)), Bytes(4 * MIB));
    }

    #[test]
    fn what_is_drawn_has_the_counts_and_the_sum() {
        for (small, large, mib) in [(1009, 312, 1434), (1689, 129, 922), (10, 0, 1), (0, 3, 60)] {
            let objects = Objects::draw(&mut Rng::new(1), small, large, Bytes(mib * MIB));
            assert_eq!(objects.count(), small + large);
            let above = objects.sizes.iter().filter(|size| size.0 >= 2 * MIB);
            assert_eq!(above.count(), large);
            let off = objects.payload().0.abs_diff(mib * MIB);
            // Without large objects nothing can be scaled up to the sum.
            assert!(large == 0 || off <= objects.count() as u64, "{off}");
            assert!(objects.sizes.is_sorted_by(|a, b| a >= b));
            assert_eq!(
                objects,
                Objects::draw(&mut Rng::new(1), small, large, Bytes(mib * MIB))
            );
        }
    }

    #[test]
    fn another_resolution_has_the_same_objects() {
        let objects = Objects::draw(&mut Rng::new(2), 300, 200, Bytes(1_500 * MIB));
        let half = objects.scaled(Bytes(750 * MIB));
        assert_eq!(half.count(), 500);
        assert!(half.payload().0.abs_diff(750 * MIB) <= 500);
        assert!(half.large() < objects.large());
        // Halving what is asked for does not halve what is taken.
        assert!(half.per_object().0 * 2 > objects.per_object().0);
    }
}
