//! From measurements to a [`DirectionCost`] that bounds them all.

use super::DirectionCost;
use crate::units::{Bytes, Nanos};

/// One measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Chunks moved, k.
    pub chunks: u64,
    /// Size of each chunk δ, in bytes.
    pub chunk: Bytes,
    /// From request to acknowledgement.
    pub took: Nanos,
}

/// What was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Bounds every sample: its base is larger than the fitted one by `residual`.
    pub cost: DirectionCost,
    /// By how much the slowest sample exceeds the fit.
    pub residual: Nanos,
}

/// Why there is no fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Nothing was measured.
    #[error("there are no samples to fit: measure some swap operations")]
    Empty,
    /// An operation that moved nothing, or in chunks of no size.
    #[error("sample {0} moved nothing: it says nothing of the cost of a swap")]
    Nothing(usize),
}

/// Unknowns: base, per chunk, per byte.
const UNKNOWNS: usize = 3;

type Vector = [f64; UNKNOWNS];

/// The least squares of base + k·(`per_chunk` + δ/bandwidth) over `samples`, none of the three
/// below zero. What the samples cannot tell apart counts as one: with a single δ the whole time of a
/// chunk is copy, with a single k and δ the base is copy too.
pub fn fit(samples: &[Sample]) -> Result<Fit, FitError> {
    if samples.is_empty() {
        return Err(FitError::Empty);
    }
    let empty = |sample: &Sample| sample.chunks == 0 || sample.chunk == Bytes::ZERO;
    if let Some(place) = samples.iter().position(empty) {
        return Err(FitError::Nothing(place));
    }
    // Every choice of unknowns that are not zero; the best that is possible wins, and of equals
    // the one with the fewest, which come first.
    let mut best: Option<(f64, Vector)> = None;
    for chosen in [0b100, 0b010, 0b001, 0b110, 0b101, 0b011, 0b111] {
        let Some(solution) = solve(samples, chosen) else {
            continue;
        };
        let error = squared_error(samples, &solution);
        if best.is_none_or(|(least, _)| error < least * (1.0 - 1e-9)) {
            best = Some((error, solution));
        }
    }
    // Of one unknown alone the solution is a quotient of positive sums.
    let (_, [base, per_chunk, per_byte]) = best.ok_or(FitError::Empty)?;
    let mut cost = DirectionCost {
        base: up(base),
        per_chunk: up(per_chunk),
        // A float too large for the integer, as of 0 per byte, is its largest.
        bytes_per_second: ((1e9 / per_byte) as u64).max(1),
    };
    let excess = |sample: &Sample| {
        let bound = cost.chunks(sample.chunks, sample.chunk, 1);
        sample.took.saturating_sub(bound)
    };
    let residual = samples.iter().map(excess).max().unwrap_or_default();
    cost.base += residual;
    Ok(Fit { cost, residual })
}

fn up(nanos: f64) -> Nanos {
    let whole = nanos as u64;
    Nanos(whole.saturating_add(u64::from((whole as f64) < nanos)))
}

fn row(sample: &Sample) -> Vector {
    let chunks = sample.chunks as f64;
    [1.0, chunks, chunks * sample.chunk.0 as f64]
}

fn squared_error(samples: &[Sample], solution: &Vector) -> f64 {
    let error = |sample: &Sample| {
        let row = row(sample);
        let model: f64 = (0..UNKNOWNS).map(|at| row[at] * solution[at]).sum();
        let off = sample.took.0 as f64 - model;
        off * off
    };
    samples.iter().map(error).sum()
}

/// Solves the normal equations for the unknowns selected by the bits of `chosen`; the others are
/// zero. None if the samples do not determine the solution, or if an unknown would be negative.
fn solve(samples: &[Sample], chosen: u32) -> Option<Vector> {
    let is_chosen = |at: usize| chosen >> at & 1 == 1;
    let largest = |at: usize| samples.iter().map(|s| row(s)[at]).fold(0.0, f64::max);
    // Columns of like size, so that a pivot of nothing can be told.
    let scale = [largest(0), largest(1), largest(2)];
    let mut matrix = [[0.0; UNKNOWNS + 1]; UNKNOWNS];
    for sample in samples {
        let row = row(sample);
        for i in (0..UNKNOWNS).filter(|at| is_chosen(*at)) {
            for j in (0..UNKNOWNS).filter(|at| is_chosen(*at)) {
                matrix[i][j] += row[i] / scale[i] * (row[j] / scale[j]);
            }
            matrix[i][UNKNOWNS] += row[i] / scale[i] * sample.took.0 as f64;
        }
    }
    let count = samples.len() as f64;
    // Symmetric and positive: the diagonal serves as pivots.
    for pivot in (0..UNKNOWNS).filter(|at| is_chosen(*at)) {
        let by = matrix[pivot][pivot];
        if by < 1e-9 * count {
            return None;
        }
        let pivot_row = matrix[pivot];
        for other in (0..UNKNOWNS).filter(|at| is_chosen(*at) && *at != pivot) {
            let factor = matrix[other][pivot] / by;
            for (cell, of) in matrix[other].iter_mut().zip(pivot_row) {
                *cell -= factor * of;
            }
        }
    }
    let mut solution = [0.0; UNKNOWNS];
    for at in (0..UNKNOWNS).filter(|at| is_chosen(*at)) {
        solution[at] = matrix[at][UNKNOWNS] / matrix[at][at] / scale[at];
    }
    solution
        .iter()
        .all(|value| *value >= 0.0)
        .then_some(solution)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn of(cost: &DirectionCost, shapes: &[(u64, u64)]) -> Vec<Sample> {
        let sample = |&(chunks, mib): &(u64, u64)| Sample {
            chunks,
            chunk: Bytes(mib * MIB),
            took: cost.chunks(chunks, Bytes(mib * MIB), 1),
        };
        shapes.iter().map(sample).collect()
    }

    const SHAPES: [(u64, u64); 7] = [
        (1, 2),
        (40, 2),
        (150, 2),
        (4, 32),
        (9, 64),
        (1, 256),
        (3, 256),
    ];

    #[test]
    fn what_made_the_samples_is_found_again() {
        let made = DirectionCost {
            base: Nanos(30_000),
            per_chunk: Nanos(73_600),
            bytes_per_second: 12_970_000_000,
        };
        let Fit { cost, residual } = fit(&of(&made, &SHAPES)).unwrap();
        let near = |a: u64, b: u64| a.abs_diff(b) <= b / 1000 + 2;
        assert!(near(cost.base.0, made.base.0), "{cost:?}");
        assert!(near(cost.per_chunk.0, made.per_chunk.0), "{cost:?}");
        assert!(
            near(cost.bytes_per_second, made.bytes_per_second),
            "{cost:?}"
        );
        assert!(residual < Nanos(100), "{residual}");
    }

    #[test]
    fn one_outlier_inflates_the_base_by_what_it_exceeds() {
        let made = DirectionCost {
            base: Nanos(30_000),
            per_chunk: Nanos(73_600),
            bytes_per_second: 12_970_000_000,
        };
        let mut samples = of(&made, &SHAPES);
        samples[3].took += Nanos(5_000_000);
        let Fit { cost, residual } = fit(&samples).unwrap();
        assert!(residual > Nanos(2_000_000), "{residual}");
        let slow = &samples[3];
        assert_eq!(cost.chunks(slow.chunks, slow.chunk, 1), slow.took);
    }

    #[test]
    fn one_chunk_size_tells_no_chunk_cost_from_copying() {
        let made = DirectionCost {
            base: Nanos(10_000),
            per_chunk: Nanos(50_000),
            bytes_per_second: 10_000_000_000,
        };
        let fitted = fit(&of(&made, &[(1, 64), (5, 64), (20, 64)])).unwrap();
        let (cost, bytes) = (fitted.cost, Bytes(640 * MIB));
        let (ours, right) = (
            cost.bound(bytes, Bytes(64 * MIB)),
            made.bound(bytes, Bytes(64 * MIB)),
        );
        assert!(
            ours.0.abs_diff(right.0) < right.0 / 1000,
            "{ours} for {right}"
        );
    }

    #[test]
    fn nothing_measured_is_no_fit() {
        assert_eq!(fit(&[]), Err(FitError::Empty));
        let nothing = Sample {
            chunks: 0,
            chunk: Bytes(MIB),
            took: Nanos(5),
        };
        assert_eq!(fit(&[nothing]), Err(FitError::Nothing(0)));
    }

    proptest! {
        #[test]
        fn every_sample_is_bounded_and_the_bound_is_met(
            drawn in proptest::collection::vec((1u64..2000, 0u32..8, 0u64..1 << 40), 1..40),
        ) {
            let sample = |(chunks, shift, nanos)| Sample {
                chunks,
                chunk: Bytes((2 * MIB) << shift),
                took: Nanos(nanos),
            };
            let samples: Vec<_> = drawn.into_iter().map(sample).collect();
            let Fit { cost, residual } = fit(&samples).unwrap();
            let slack = |s: &Sample| cost.chunks(s.chunks, s.chunk, 1).0.checked_sub(s.took.0);
            let least = samples.iter().map(slack).min().unwrap();
            prop_assert!(least.is_some(), "{cost:?}");
            prop_assert!(residual == Nanos::ZERO || least == Some(0), "{cost:?} {residual}");
        }
    }
}
