//! Fig. 14: latencies that vary.

use rtswap_planner::advisor::Rng;
use rtswap_planner::blocks::{Block, Partition, latency_ns};

use super::models::Prepared;

/// By how many ms each of `count` inferences takes longer than direct inference on average, the shortest first. Each delay of
/// each block is drawn from a normal distribution with the deviation `noise`, a share of it.
pub fn longer_ms(
    model: &Prepared,
    partition: &Partition,
    noise: f64,
    count: usize,
    seed: u64,
) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    let mut inference = || {
        let mut noisy = |ns: u64| (ns as f64 * (1.0 + noise * rng.normal()).max(0.0)) as u64;
        let blocks = partition.blocks(&model.costs).map(|block| Block {
            input_ns: noisy(block.input_ns),
            execution_ns: noisy(block.execution_ns),
            output_ns: noisy(block.output_ns),
            ..block
        });
        latency_ns(blocks) as f64 / 1e6 - model.direct_ms()
    };
    let mut all: Vec<f64> = (0..count).map(|_| inference()).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}
