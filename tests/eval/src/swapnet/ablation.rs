//! Fig. 15 and 16: SwapNet without one of its parts, and with more blocks.

use rtswap_planner::blocks::{Block, Partition, latency_ns, partition_into};

use super::models::Prepared;

/// Nanoseconds for each byte where blocks are assembled without a skeleton: their parameters are copied into the objects of a
/// dummy model (section 5.1), which occupies the thread that runs them. Not published; fitted so that the four models of
/// self-driving take longer by the middle of the paper's range, on average. No time per reference explains VGG-19, which has
/// 38 of them.
pub const COPY_WITHOUT_SKELETON_NS: f64 = 0.45;

/// What a partition takes where blocks are assembled without a skeleton, in nanoseconds.
pub fn without_skeleton_ns(model: &Prepared, partition: &Partition) -> u64 {
    let blocks = partition.blocks(&model.costs).map(|block| Block {
        execution_ns: block.execution_ns + (COPY_WITHOUT_SKELETON_NS * block.bytes as f64) as u64,
        ..block
    });
    latency_ns(blocks)
}

/// The model in `count` blocks of about the same size: each cut is where the size of all layers before it is nearest to an
/// equal share. A model of fewer layers has fewer blocks.
pub fn equal_blocks(model: &Prepared, count: usize) -> Partition {
    let costs = &model.costs;
    let whole = costs.whole().bytes;
    let mut points: Vec<u32> = (1..count as u64)
        .filter_map(|at| {
            let share = whole * at / count as u64;
            let behind = |to: &usize| costs.block(0, *to).bytes.abs_diff(share);
            (1..costs.layers()).min_by_key(behind).map(|to| to as u32)
        })
        .collect();
    points.dedup();
    Partition::at(costs, points)
}

/// The fewest blocks of a model in `budget` bytes by the paper's n = ⌈2·s/b⌉.
pub fn fewest(model: &Prepared, budget: u64) -> usize {
    (2 * model.costs.whole().bytes).div_ceil(budget) as usize
}

/// The fastest blocks of a model in `budget` bytes with the fewest with which it fits, as the paper has them.
pub fn fewest_blocks(model: &Prepared, budget: u64) -> Option<Partition> {
    let layers = model.costs.layers();
    let mut counts = fewest(model, budget)..=layers;
    counts.find_map(|count| partition_into(&model.costs, budget, count..=count))
}

/// The model in `count` blocks in a twentieth more memory than blocks of the same size need, two at a time; none where no
/// such partition fits.
pub fn blocks(model: &Prepared, count: usize) -> Option<Partition> {
    let budget = 2 * model.costs.whole().bytes / count as u64 * 21 / 20;
    partition_into(&model.costs, budget, count..=count)
}
