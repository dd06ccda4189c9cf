//! The copy speeds of the paper's machine (RTX 3090, PCIe 3.0), from its Fig. 4; 1 MB is read as
//! 1 MiB, because its chunks are multiples of the driver's 2 MiB.

use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::units::{Bytes, Nanos};

/// The driver's smallest physical allocation: MIN's δ, MO-VMM's unit, and the largest block that
/// unified memory migrates at once.
pub const SMALLEST_CHUNK: Bytes = Bytes(2 << 20);

/// RT-Swap with pinned memory: 26.2 ms out at δ = 64 MB, 35.3 ms at 2 MB and 41.6 ms at 256 MB
/// for 300 MB fix the two numbers of the way out. For the way in 28.3 ms at 64 MB is all that is
/// published: its share per chunk is taken to be as large as on the way out.
pub const PINNED: SwapCost = SwapCost::PAPER;

/// The same with pageable memory: 192.6 ms out and 93.9 ms in for 300 MB at δ = 64 MB, five
/// chunks. The share per chunk is that of pinned memory; the rest is bandwidth.
pub const PAGEABLE: SwapCost = SwapCost {
    out: DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(73_600),
        bytes_per_second: 1_745_517_499,
    },
    in_: DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(79_500),
        bytes_per_second: 3_588_613_353,
    },
};

/// `cost` with everything taking `percent` of its time.
#[must_use]
pub const fn scaled(cost: SwapCost, percent: u64) -> SwapCost {
    const fn direction(cost: DirectionCost, percent: u64) -> DirectionCost {
        DirectionCost {
            base: Nanos(cost.base.0 * percent / 100),
            per_chunk: Nanos(cost.per_chunk.0 * percent / 100),
            bytes_per_second: cost.bytes_per_second * 100 / percent,
        }
    }
    SwapCost {
        out: direction(cost.out, percent),
        in_: direction(cost.in_, percent),
    }
}

/// Pinned memory with another share per chunk on the way in, and the bandwidth that then gives
/// the published 28.3 ms.
#[must_use]
pub const fn pinned_with_swap_in(per_chunk: Nanos) -> SwapCost {
    const CHUNK: u64 = 64 << 20;
    const ONE_CHUNK: u64 = 28_300_000 / 5;
    SwapCost {
        out: PINNED.out,
        in_: DirectionCost {
            base: Nanos::ZERO,
            per_chunk,
            bytes_per_second: CHUNK * 1_000_000_000 / (ONE_CHUNK - per_chunk.0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_times_come_out() {
        const MIB: u64 = 1 << 20;
        for (cost, chunk, millis) in [
            (PINNED.out, 2, 35.3),
            (PINNED.out, 64, 26.2),
            (PINNED.out, 256, 41.6),
            (PINNED.in_, 64, 28.3),
            (PAGEABLE.out, 64, 192.6),
            (PAGEABLE.in_, 64, 93.9),
        ] {
            let took = cost.bound(Bytes(300 * MIB), Bytes(chunk * MIB)).0 as f64 / 1e6;
            assert!((took / millis - 1.0).abs() < 0.005, "{took} for {millis}");
        }
    }

    #[test]
    fn variations_keep_what_they_should() {
        let (volume, chunk) = (Bytes(300 << 20), Bytes(64 << 20));
        let other = pinned_with_swap_in(Nanos(229_000));
        let took = other.in_.bound(volume, chunk).0 as f64 / 1e6;
        assert!((took / 28.3 - 1.0).abs() < 1e-3, "{took}");
        assert_eq!(other.out, PINNED.out);
        let slow = scaled(PINNED, 115);
        let ratio = |cost: DirectionCost, before: DirectionCost| {
            cost.bound(volume, chunk).0 as f64 / before.bound(volume, chunk).0 as f64
        };
        assert!((ratio(slow.out, PINNED.out) - 1.15).abs() < 1e-6);
        assert!((ratio(slow.in_, PINNED.in_) - 1.15).abs() < 1e-6);
    }
}
