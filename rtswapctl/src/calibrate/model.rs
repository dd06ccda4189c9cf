//! From samples to a cost model: the costs of both directions, ρ, and the chunk size that serves best.

use rtswap_policy::cost::{DirectionCost, Fit, FitError, Sample, SwapCost, fit};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_taskset::calibration::RATE_LIMIT;

use super::measure::Both;

/// By how much task sets are larger than the GPU's memory, in tenths of it.
const OVERFLOWS: std::ops::RangeInclusive<u64> = 1..=6;
/// How many tasks share it: the footprint of each is rounded up to whole chunks, by half a chunk on average.
const TASKS: u64 = 4;

/// One direction's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Bounds each sample.
    pub(super) cost: DirectionCost,
    /// By how much the slowest sample is beyond what the medians fit, which is part of the base.
    pub(super) slowest: Nanos,
}

impl Way {
    /// The model of swaps by `chunk`. It is fitted to the median of each volume, so that no single swap bends it, and its base
    /// is then raised until it bounds the slowest one.
    ///
    /// Only the samples of that chunk size make it: an agent makes the calls for a chunk while it copies another one, so that
    /// a chunk takes about the longer of the two, and no line over chunk sizes is exact. All `samples` tell what part of a
    /// chunk's time is the copy's: all of it where they do not show that more bytes take longer, as on a loaded host.
    pub(super) fn of(samples: &[Sample], chunk: Bytes) -> Result<Self, FitError> {
        let overall = fit(&medians(samples))?.cost;
        let own = samples.iter().filter(|sample| sample.chunk == chunk);
        let own: Vec<_> = own.copied().collect();
        // Of one chunk size: all its time is the copy's.
        let mut fitted = fit(&medians(&own))?;
        if !is_a_rate(fitted.cost.bytes_per_second) {
            fitted = Fit {
                cost: all_copying(&own),
                residual: Nanos::ZERO,
            };
        }
        let whole = fitted.cost.chunk_time(chunk);
        let copy = DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos::ZERO,
            ..overall
        };
        let beside = whole.saturating_sub(copy.chunk_time(chunk));
        let cost = if beside == Nanos::ZERO || !is_a_rate(overall.bytes_per_second) {
            fitted.cost
        } else {
            DirectionCost {
                base: fitted.cost.base,
                per_chunk: beside,
                ..overall
            }
        };
        let mut way = Self {
            cost,
            slowest: fitted.residual,
        };
        way.raise(&own, Ppm::ONE);
        Ok(way)
    }

    /// The cost without what the slowest swap took more.
    pub(super) fn typical(&self) -> DirectionCost {
        DirectionCost {
            base: self.cost.base.saturating_sub(self.slowest),
            ..self.cost
        }
    }

    /// Raises the base until it bounds `samples`, which were taken at a share of the speed.
    pub(super) fn raise(&mut self, samples: &[Sample], share: Ppm) {
        let beyond = |sample: &Sample| {
            // As admission charges it: the base is not slowed.
            let moving = self.cost.chunks(sample.chunks, sample.chunk, 0);
            let bound = self.cost.base + moving.slowed(share);
            sample.took.saturating_sub(bound)
        };
        let beyond = samples.iter().map(beyond).max().unwrap_or_default();
        self.cost.base += beyond;
        self.slowest += beyond;
    }

    /// The share of its speed at which this direction moves in `loaded`, by the medians: the worst of the volumes.
    fn share(&self, loaded: &[Sample]) -> f64 {
        // Once an operation and not in each chunk.
        let once = self.typical().base;
        let shares = medians(loaded).into_iter().map(|sample| {
            let alone = self.cost.chunks(sample.chunks, sample.chunk, 0);
            alone.0 as f64 / sample.took.saturating_sub(once).0.max(1) as f64
        });
        shares.fold(1.0, f64::min)
    }
}

/// Whether a calibration can have this rate: a fit in which bytes cost next to nothing has none.
fn is_a_rate(bytes_per_second: u64) -> bool {
    bytes_per_second < RATE_LIMIT << 30
}

/// A cost without calls, at the rate of the slowest of `samples`, which are not none.
fn all_copying(samples: &[Sample]) -> DirectionCost {
    let rate = |sample: &Sample| {
        let bytes = u128::from(sample.chunks * sample.chunk.0);
        (bytes * 1_000_000_000 / u128::from(sample.took.0.max(1))) as u64
    };
    DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos::ZERO,
        bytes_per_second: samples.iter().map(rate).min().unwrap_or_default().max(1),
    }
}

/// ρ: the share of the direction that the other copy engine slows more. All of it where nothing was measured.
pub(super) fn duplex((out, into): (&Way, &Way), loaded: &Both) -> Ppm {
    let least = out.share(&loaded.out).min(into.share(&loaded.into));
    Ppm(((least * f64::from(Ppm::ONE.0)) as u32).max(1))
}

/// The chunk size with which task sets larger than the GPU's `memory` swap the least, of those that `costs` has, which are not
/// none: the time for each set, in relation to the best chunk size for it, is the least in sum. Small chunks cost their
/// calls; large ones move more than is needed.
pub(super) fn choose(costs: &[(Bytes, SwapCost)], memory: Bytes) -> Bytes {
    let time = |tenths: u64, (chunk, cost): &(Bytes, SwapCost)| {
        // The memory is rounded, too: down.
        let overflow = memory.0 / 10 * tenths + (TASKS + 1) * chunk.0 / 2;
        // Where one task runs the others must make room for it: the paper's (1c).
        let volume = Bytes(overflow / (TASKS - 1));
        (cost.out.bound(volume, *chunk) + cost.in_.bound(volume, *chunk)).0 as f64
    };
    let loss = |own: &(Bytes, SwapCost)| -> f64 {
        let relative = OVERFLOWS.map(|tenths| {
            let times = costs.iter().map(|other| time(tenths, other));
            time(tenths, own) / times.fold(f64::INFINITY, f64::min)
        });
        relative.sum()
    };
    let losses = costs.iter().map(|own| (loss(own), own.0));
    let least = losses.min_by(|a, b| a.0.total_cmp(&b.0));
    least.expect("a GPU has a chunk size").1
}

/// The median of each volume.
fn medians(samples: &[Sample]) -> Vec<Sample> {
    let mut sorted = samples.to_vec();
    sorted.sort_by_key(|sample| (sample.chunk, sample.chunks, sample.took));
    let groups = sorted.chunk_by(|a, b| (a.chunk, a.chunks) == (b.chunk, b.chunks));
    groups.map(|group| group[group.len() / 2]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn made() -> DirectionCost {
        DirectionCost {
            base: Nanos(400_000),
            per_chunk: Nanos(80_000),
            bytes_per_second: 400_000_000,
        }
    }

    /// Seven swaps of each volume, the last of each late by this.
    fn samples(cost: DirectionCost, late: Nanos) -> Vec<Sample> {
        let shapes = [(28, 2), (3, 2), (14, 4), (1, 4), (3, 16), (1, 32)];
        let sample = |(chunks, mib): (u64, u64), late| {
            let chunk = Bytes(mib * MIB);
            let took = cost.chunks(chunks, chunk, 1) + late;
            Sample {
                chunks,
                chunk,
                took,
            }
        };
        let of = |shape| {
            let quiet = (0..6).map(move |_| sample(shape, Nanos::ZERO));
            quiet.chain([sample(shape, late)])
        };
        shapes.into_iter().flat_map(of).collect()
    }

    #[test]
    fn late_swaps_raise_the_base_and_bend_nothing() {
        let late = Nanos(3_000_000);
        let way = Way::of(&samples(made(), late), Bytes(2 * MIB)).unwrap();
        let near = |a: u64, b: u64| a.abs_diff(b) <= b / 500 + 2;
        assert!(near(way.cost.per_chunk.0, made().per_chunk.0), "{way:?}");
        assert!(near(way.cost.bytes_per_second, made().bytes_per_second));
        assert!(near(way.slowest.0, late.0), "{way:?}");
        assert!(near(way.cost.base.0, made().base.0 + late.0), "{way:?}");
    }

    #[test]
    fn calls_that_hide_behind_copies_make_one_chunk_size_cheap() {
        // 3 ms of calls: hidden behind a copy of 32 MiB, and more than one of 2 MiB takes.
        let took = |chunks: u64, mib: u64| {
            let chunk = Bytes(mib * MIB);
            let copy = Nanos(mib * 1_000_000);
            let took = Nanos(500_000) + Nanos(chunks * copy.max(Nanos(3_000_000)).0);
            Sample {
                chunks,
                chunk,
                took,
            }
        };
        let samples = [
            took(40, 2),
            took(5, 2),
            took(20, 4),
            took(2, 4),
            took(4, 32),
            took(1, 32),
        ];
        for mib in [2, 4, 32] {
            let way = Way::of(&samples, Bytes(mib * MIB)).unwrap();
            for sample in samples.iter().filter(|it| it.chunk == Bytes(mib * MIB)) {
                let bound = way.cost.chunks(sample.chunks, sample.chunk, 1);
                assert!(
                    bound.0.abs_diff(sample.took.0) < 20_000,
                    "{bound} for {sample:?}"
                );
            }
        }
    }

    #[test]
    fn what_a_loaded_host_measured_is_a_calibration() {
        // Large chunks are as fast as small ones, or many chunks as fast as one: no time is the bytes'.
        let flat = |chunks: u64, mib: u64| Sample {
            chunks,
            chunk: Bytes(mib * MIB),
            took: Nanos(4_000_000 + chunks * 3_500_000),
        };
        let falling = |chunks: u64, mib: u64| Sample {
            took: Nanos(90_000_000 - chunks * 1_000_000),
            ..flat(chunks, mib)
        };
        let shapes = [(20, 2), (3, 2), (14, 4), (1, 4)];
        let sets = [
            shapes.map(|(chunks, mib)| flat(chunks, mib)),
            shapes.map(|(chunks, mib)| falling(chunks, mib)),
        ];
        for samples in sets {
            let overall = fit(&medians(&samples)).unwrap();
            assert_eq!(overall.cost.bytes_per_second, u64::MAX, "{overall:?}");
            for mib in [2, 4] {
                let way = Way::of(&samples, Bytes(mib * MIB)).unwrap();
                assert!(is_a_rate(way.cost.bytes_per_second), "{way:?}");
                assert_eq!(way.cost.per_chunk, Nanos::ZERO, "{way:?}");
                for sample in samples.iter().filter(|it| it.chunk == Bytes(mib * MIB)) {
                    let bound = way.cost.chunks(sample.chunks, sample.chunk, 1);
                    assert!(bound >= sample.took, "{bound} for {sample:?}");
                }
            }
        }
    }

    #[test]
    fn the_share_under_load_is_that_of_the_chunks_and_of_the_worse_direction() {
        let alone = samples(made(), Nanos::ZERO);
        let way = Way::of(&alone, Bytes(2 * MIB)).unwrap();
        let slowed = |share: f64| {
            let mut sample = alone[0];
            let moving = (sample.took - made().base).0 as f64;
            sample.took = made().base + Nanos((moving / share) as u64);
            vec![sample; 3]
        };
        let loaded = Both {
            out: slowed(0.7),
            into: slowed(0.9),
        };
        let share = duplex((&way, &way), &loaded).0;
        assert!(share.abs_diff(700_000) < 1_000, "{share}");
        assert_eq!(duplex((&way, &way), &Both::default()), Ppm::ONE);
        let mut raised = way;
        raised.raise(&loaded.out, Ppm(700_000));
        assert!(raised.slowest < way.slowest + Nanos(200_000), "{raised:?}");
        let late = loaded.out[0].took + Nanos(5_000_000);
        raised.raise(
            &[Sample {
                took: late,
                ..loaded.out[0]
            }],
            Ppm(700_000),
        );
        let cost = SwapCost {
            out: raised.cost,
            in_: raised.cost,
        };
        let Sample { chunks, chunk, .. } = loaded.out[0];
        assert!(cost.loaded(Ppm(700_000)).out.chunks(chunks, chunk, 1) >= late);
    }

    #[test]
    fn calls_make_chunks_large_and_rounding_makes_them_small() {
        let chosen = |per_chunk: u64| {
            let cost = DirectionCost {
                per_chunk: Nanos(per_chunk),
                ..made()
            };
            let cost = SwapCost {
                out: cost,
                in_: cost,
            };
            let costs = [2, 4, 8, 16, 32, 64].map(|mib| (Bytes(mib * MIB), cost));
            choose(&costs, Bytes(4096 * MIB)).0 / MIB
        };
        assert_eq!(chosen(0), 2);
        assert!(chosen(500_000) < chosen(50_000_000));
        assert_eq!(chosen(500_000_000), 64);
    }
}
