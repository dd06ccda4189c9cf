//! Fig. 15 and 16: SwapNet without one of its parts, and with more blocks.

use rtswap_planner::blocks::{Costs, Partition, partition_into};

use super::models::{Device, Prepared};

/// Nanoseconds for each reference where a block is assembled without a skeleton: objects are made and parameters copied into
/// them. Not published; fitted so that ResNet-101 in self-driving takes longer by what is in the middle of the paper's range.
pub const ASSEMBLY_WITHOUT_SKELETON_NS: f64 = 700_000.0;

/// The partition of a model, and what it takes where blocks are assembled without a skeleton.
pub fn without_skeleton(model: &Prepared, partition: &Partition, device: &Device) -> Partition {
    let device = Device {
        assembly_ns: ASSEMBLY_WITHOUT_SKELETON_NS,
        ..*device
    };
    let coefficients = device.coefficients(&model.model, &model.graph);
    let costs = Costs::new(&model.graph, &model.info, &coefficients);
    Partition::at(&costs, partition.points.clone())
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

/// The model in `count` blocks in a twentieth more memory than blocks of the same size need, two at a time; none where no
/// such partition fits.
pub fn blocks(model: &Prepared, count: usize) -> Option<Partition> {
    let budget = 2 * model.costs.whole().bytes / count as u64 * 21 / 20;
    partition_into(&model.costs, budget, count..=count)
}
