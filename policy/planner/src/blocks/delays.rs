//! How long blocks take to come in, to run and to go out, and how the coefficients of that are measured.

/// How long operators take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Execution {
    /// So many nanoseconds per floating-point operation (the paper's γ).
    PerFlop(f64),
    /// What the graph says of each operator.
    Recorded,
}

/// The coefficients of a device (SwapNet, section 6.1 and Fig. 9).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Nanoseconds that each byte takes to come in from storage (the paper's α).
    pub read_ns_per_byte: f64,
    /// Nanoseconds that each reference takes to connect a parameter (the paper's β).
    pub assembly_ns_per_reference: f64,
    /// How long operators take.
    pub execution: Execution,
    /// Nanoseconds that each reference takes to be reset (the paper's η).
    pub reset_ns_per_reference: f64,
    /// Nanoseconds that garbage collection takes for each block.
    pub collection_ns: f64,
}

impl Coefficients {
    /// Input delay of a block: t_in = α·s + β·d, in nanoseconds.
    pub fn input_ns(&self, bytes: u64, references: u64) -> u64 {
        let read = self.read_ns_per_byte * bytes as f64;
        rounded(read + self.assembly_ns_per_reference * references as f64)
    }

    /// Execution delay of a block, in nanoseconds: t_ex = γ·f, or what the graph says.
    pub fn execution_ns(&self, flops: u64, recorded_ns: u64) -> u64 {
        match self.execution {
            Execution::PerFlop(gamma) => rounded(gamma * flops as f64),
            Execution::Recorded => recorded_ns,
        }
    }

    /// Output delay of a block: t_out = η·d and the garbage collection, in nanoseconds.
    pub fn output_ns(&self, references: u64) -> u64 {
        rounded(self.reset_ns_per_reference * references as f64 + self.collection_ns)
    }
}

fn rounded(ns: f64) -> u64 {
    // A cast from f64 saturates.
    (ns + 0.5) as u64
}

/// One measured block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The size of its parameters in bytes.
    pub bytes: u64,
    /// Its parameter tensors.
    pub references: u64,
    /// Its floating-point operations.
    pub flops: u64,
    /// How long it took to come in, in nanoseconds.
    pub input_ns: f64,
    /// How long it ran, in nanoseconds.
    pub execution_ns: f64,
    /// How long it took to go out, in nanoseconds.
    pub output_ns: f64,
}

/// The coefficients that fit measured blocks best, by least squares. None where the samples do not tell the coefficients
/// apart: they need different numbers of references, different sizes per reference, and at least one operation.
pub fn fit(samples: &[Sample]) -> Option<Coefficients> {
    let sum = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>();
    let bytes = |sample: &Sample| sample.bytes as f64;
    let references = |sample: &Sample| sample.references as f64;
    let flops = |sample: &Sample| sample.flops as f64;

    let input = solve(
        [
            sum(&|s| bytes(s) * bytes(s)),
            sum(&|s| bytes(s) * references(s)),
            sum(&|s| references(s) * references(s)),
        ],
        [
            sum(&|s| bytes(s) * s.input_ns),
            sum(&|s| references(s) * s.input_ns),
        ],
    );
    let output = solve(
        [
            sum(&|s| references(s) * references(s)),
            sum(&references),
            samples.len() as f64,
        ],
        [sum(&|s| references(s) * s.output_ns), sum(&|s| s.output_ns)],
    );
    let squares = sum(&|s| flops(s) * flops(s));
    let gamma = (squares > 0.0).then(|| sum(&|s| flops(s) * s.execution_ns) / squares);
    let ([alpha, beta], [eta, collection], gamma) = (input?, output?, gamma?);
    Some(Coefficients {
        read_ns_per_byte: alpha,
        assembly_ns_per_reference: beta,
        execution: Execution::PerFlop(gamma),
        reset_ns_per_reference: eta,
        collection_ns: collection,
    })
}

/// The two unknowns of normal equations with the symmetric matrix `[a, b, d]`; none where it is singular.
fn solve([a, b, d]: [f64; 3], [right, below]: [f64; 2]) -> Option<[f64; 2]> {
    let determinant = a * d - b * b;
    // Rounding leaves a singular matrix of large sums a small determinant.
    let is_regular = determinant > 1e-9 * a * d;
    is_regular.then(|| {
        [
            (right * d - below * b) / determinant,
            (below * a - right * b) / determinant,
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advisor::Rng;
    use alloc::vec::Vec;

    const TRUE: Coefficients = Coefficients {
        read_ns_per_byte: 0.5,
        assembly_ns_per_reference: 52_500.0,
        execution: Execution::PerFlop(0.03),
        reset_ns_per_reference: 40_000.0,
        collection_ns: 3_000_000.0,
    };

    fn measured(count: usize, noise: f64) -> Vec<Sample> {
        let mut rng = Rng::new(7);
        (0..count)
            .map(|_| {
                let bytes = 1_000_000 + rng.below(80_000_000) as u64;
                let references = 1 + rng.below(300) as u64;
                let flops = 1_000_000 + rng.below(5_000_000_000) as u64;
                let mut noisy = |ns: u64| ns as f64 * (1.0 + noise * rng.normal());
                Sample {
                    bytes,
                    references,
                    flops,
                    input_ns: noisy(TRUE.input_ns(bytes, references)),
                    execution_ns: noisy(TRUE.execution_ns(flops, 0)),
                    output_ns: noisy(TRUE.output_ns(references)),
                }
            })
            .collect()
    }

    fn assert_near(found: Coefficients, tolerance: f64) {
        let (Execution::PerFlop(gamma), Execution::PerFlop(expected)) =
            (found.execution, TRUE.execution)
        else {
            panic!("{found:?}");
        };
        let pairs = [
            (found.read_ns_per_byte, TRUE.read_ns_per_byte),
            (
                found.assembly_ns_per_reference,
                TRUE.assembly_ns_per_reference,
            ),
            (gamma, expected),
            (found.reset_ns_per_reference, TRUE.reset_ns_per_reference),
            (found.collection_ns, TRUE.collection_ns),
        ];
        for (found, expected) in pairs {
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn regression_recovers_the_coefficients() {
        assert_near(fit(&measured(200, 0.0)).unwrap(), 1e-5);
        assert_near(fit(&measured(500, 0.05)).unwrap(), 0.05);
    }

    #[test]
    fn samples_that_tell_nothing_apart_are_refused() {
        assert_eq!(fit(&[]), None);
        let sample = measured(1, 0.0)[0];
        assert_eq!(fit(&[sample; 5]), None);
        let mut no_work = measured(50, 0.0);
        for sample in &mut no_work {
            sample.flops = 0;
        }
        assert_eq!(fit(&no_work), None);
    }
}
