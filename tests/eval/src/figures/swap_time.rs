//! Fig. 4: how long swapping 300 MB takes.

use rtswap_policy::cost::DirectionCost;
use rtswap_policy::units::{Bytes, Nanos};

use super::fragmentation::Catalogue;
use super::workload::{Model, Reading, Resolution};
use crate::baselines::link::{PAGEABLE, PINNED, SMALLEST_CHUNK};

const MIB: u64 = 1 << 20;
/// What is swapped.
pub const VOLUME: Bytes = Bytes(300 * MIB);

/// Out and in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// To the host.
    pub out: Nanos,
    /// Back.
    pub in_: Nanos,
}

/// Uniform chunks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRow {
    /// δ.
    pub chunk: Bytes,
    /// RT-Swap: pinned memory that is kept.
    pub pinned: Times,
    /// Pageable memory.
    pub pageable: Times,
}

/// Memory objects of one model at 416, each with an allocation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// Whose.
    pub model: Model,
    /// Of the largest objects, how many take 300 MiB together, and how long they take.
    pub largest: (usize, Times),
    /// Of the mean object so many, and how long they take.
    pub mean: (usize, Times),
}

/// δ = 2 MiB·2ᵏ up to 256 MiB.
pub fn by_chunk() -> Vec<ChunkRow> {
    (1..=8)
        .map(|power| {
            let chunk = Bytes(MIB << power);
            let times = |cost: rtswap_policy::cost::SwapCost| Times {
                out: cost.out.bound(VOLUME, chunk),
                in_: cost.in_.bound(VOLUME, chunk),
            };
            ChunkRow {
                chunk,
                pinned: times(PINNED),
                pageable: times(PAGEABLE),
            }
        })
        .collect()
}

/// MO-VMM.
pub fn by_object(reading: &Reading, seed: u64) -> Vec<ObjectRow> {
    let catalogue = Catalogue::draw(reading, seed);
    let row = |&model: &Model| {
        let objects = catalogue.objects(model, Resolution::Middle);
        let (count, taken) = objects.largest(VOLUME);
        let all = objects.per_object().0;
        let mean = (objects.count() as u64 * VOLUME.0).div_ceil(all) as usize;
        ObjectRow {
            model,
            largest: (count, times(count, taken)),
            mean: (mean, times(mean, VOLUME)),
        }
    };
    Model::ALL.iter().map(row).collect()
}

/// `count` allocations that are `bytes` together.
fn times(count: usize, bytes: Bytes) -> Times {
    debug_assert!(bytes >= SMALLEST_CHUNK);
    let one = |cost: DirectionCost| {
        let more = cost.per_chunk.0 * (count as u64).saturating_sub(1);
        cost.chunk_time(bytes) + Nanos(more)
    };
    Times {
        out: one(PINNED.out),
        in_: one(PINNED.in_),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_mib_is_about_the_best_chunk_and_the_ends_are_worse() {
        let rows = by_chunk();
        assert_eq!(rows.len(), 8);
        let out: Vec<_> = rows.iter().map(|row| row.pinned.out).collect();
        let best = out.iter().min().unwrap();
        assert!(out[0] > *best && out[7] > *best);
        assert!(rows.iter().all(|row| row.pageable.out > row.pinned.out));
        assert!(rows.iter().all(|row| row.pageable.in_ > row.pinned.in_));
    }

    #[test]
    fn objects_cost_by_number_and_by_size() {
        let one = times(1, Bytes(64 * MIB));
        assert_eq!(one.out, PINNED.out.chunk_time(Bytes(64 * MIB)));
        let four = times(4, Bytes(64 * MIB));
        assert_eq!(four.out, one.out + Nanos(3 * 73_600));
        assert_eq!(four.in_, one.in_ + Nanos(3 * 79_500));
        for row in by_object(&Reading::default(), 1) {
            assert!(row.largest.0 < row.mean.0);
        }
    }
}
