//! The swap cost model: O(x,δ) = base + ⌈x/δ⌉ · (per_chunk + δ/bandwidth), and 0 for x = 0.

mod fit;

pub use fit::{Fit, FitError, Sample, fit};

use crate::units::{Bytes, Nanos, Ppm};

/// What one direction costs while the other copy engine is idle, or loaded: [`SwapCost::loaded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectionCost {
    /// Once per operation, from request to acknowledgement through the daemon.
    pub base: Nanos,
    /// Once per chunk: unmap and release, or create, map and set access.
    pub per_chunk: Nanos,
    /// Of the copy, in bytes per second. Zero means that nothing ever arrives.
    pub bytes_per_second: u64,
}

/// What swapping costs on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapCost {
    /// From the GPU to the backing store.
    pub out: DirectionCost,
    /// From the backing store to the GPU.
    pub in_: DirectionCost,
}

impl SwapCost {
    /// The fit to Fig. 4 of the paper, an RTX 3090 on PCIe 3.0; the share of a chunk in the one
    /// number that is published for swap-in is a guess.
    pub const PAPER: Self = {
        const fn direction(per_chunk: u64, hundredths_of_gib: u64) -> DirectionCost {
            DirectionCost {
                base: Nanos::ZERO,
                per_chunk: Nanos(per_chunk),
                bytes_per_second: (hundredths_of_gib << 30) / 100,
            }
        }
        Self {
            out: direction(73_600, 1_208),
            in_: direction(79_500, 1_118),
        }
    };

    /// The same with the other copy engine loaded, by its loaded rate over its rate alone, `duplex`: no chunk takes less
    /// than its [`DirectionCost::chunk_time`] slowed by `duplex`.
    #[must_use]
    pub fn loaded(self, duplex: Ppm) -> Self {
        if duplex == Ppm::ONE {
            return self;
        }
        let rate = |alone: u64| {
            let scaled = u128::from(alone) * u128::from(duplex.0) / u128::from(Ppm::ONE.0);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let direction = |alone: DirectionCost| DirectionCost {
            base: alone.base,
            // One more, because the time of a copy is rounded up to a nanosecond before it is slowed.
            per_chunk: (alone.per_chunk + Nanos(1)).slowed(duplex),
            bytes_per_second: rate(alone.bytes_per_second),
        };
        Self {
            out: direction(self.out),
            in_: direction(self.in_),
        }
    }
}

impl DirectionCost {
    /// The time of one chunk of δ = `chunk`, rounded up to a nanosecond.
    pub fn chunk_time(&self, chunk: Bytes) -> Nanos {
        const SECOND: u64 = 1_000_000_000;
        let copy = match (chunk.0.checked_mul(SECOND), self.bytes_per_second) {
            (_, 0) => u64::MAX,
            (Some(scaled), rate) => scaled.div_ceil(rate),
            (None, rate) => {
                let scaled = u128::from(chunk.0) * u128::from(SECOND);
                u64::try_from(scaled.div_ceil(u128::from(rate))).unwrap_or(u64::MAX)
            }
        };
        self.per_chunk + Nanos(copy)
    }

    /// The time of `operations` operations that together move `chunks` chunks of δ = `chunk`;
    /// zero for no chunks.
    pub fn chunks(&self, chunks: u64, chunk: Bytes, operations: u64) -> Nanos {
        if chunks == 0 {
            return Nanos::ZERO;
        }
        let moved = self.chunk_time(chunk).0.saturating_mul(chunks);
        Nanos(self.base.0.saturating_mul(operations)) + Nanos(moved)
    }

    /// O(x,δ): one operation of `volume` bytes.
    pub fn bound(&self, volume: Bytes, chunk: Bytes) -> Nanos {
        self.chunks(volume.chunks(chunk), chunk, 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_papers_figure_4_is_matched() {
        // 300 MB out: 35.3 ms at 2 MiB, 26.2 ms at 64 MiB, 41.6 ms at 256 MiB.
        for (chunk, millis) in [(2, 35.3), (64, 26.2), (256, 41.6)] {
            let cost = SwapCost::PAPER
                .out
                .bound(Bytes(300 * MIB), Bytes(chunk * MIB));
            let error = (cost.0 as f64 / 1e6 - millis) / millis;
            assert!(
                error.abs() < 0.01,
                "{chunk} MiB: {cost}, published {millis} ms"
            );
        }
    }

    #[test]
    fn nothing_costs_nothing_and_no_bandwidth_never_ends() {
        let mut cost = SwapCost::PAPER.out;
        cost.base = Nanos(5_000);
        assert_eq!(cost.bound(Bytes::ZERO, Bytes(MIB)), Nanos::ZERO);
        assert_eq!(
            cost.bound(Bytes(1), Bytes(MIB)),
            Nanos(5_000) + cost.chunk_time(Bytes(MIB))
        );
        cost.bytes_per_second = 0;
        assert_eq!(cost.bound(Bytes(1), Bytes(MIB)), Nanos::MAX);
    }

    proptest! {
        #[test]
        fn a_loaded_chunk_takes_no_less_than_one_slowed_and_hardly_more(
            per_chunk in 0_u64..10_000_000,
            bytes_per_second in 1_u64 << 28..1 << 40,
            base in 0_u64..10_000_000,
            duplex in 100_000_u32..=1_000_000,
            chunk in 1_u64..=128,
        ) {
            let direction = DirectionCost {
                base: Nanos(base),
                per_chunk: Nanos(per_chunk),
                bytes_per_second,
            };
            let (duplex, chunk) = (Ppm(duplex), Bytes(chunk * 2 * MIB));
            let loaded = SwapCost { out: direction, in_: direction }.loaded(duplex);
            prop_assert_eq!(loaded.out, loaded.in_);
            prop_assert_eq!(loaded.out.base, direction.base);
            let slowed = direction.chunk_time(chunk).slowed(duplex);
            let least = loaded.out.chunk_time(chunk);
            // The rate is rounded to a byte a second: over 10 s at 27 MB/s that is some hundred nanoseconds.
            let rounding = slowed.0 / loaded.out.bytes_per_second + 25;
            prop_assert!(least >= slowed && least.0 <= slowed.0 + rounding, "{slowed} {least}");
        }
    }

    #[test]
    fn without_loss_both_costs_are_one() {
        assert_eq!(SwapCost::PAPER.loaded(Ppm::ONE), SwapCost::PAPER);
    }
}
