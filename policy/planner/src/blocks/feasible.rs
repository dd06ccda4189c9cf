//! Partitions that fit a budget, without regard to their latency.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::costs::Costs;
use super::partition::Partition;

/// A partition within `budget` bytes, with the first number of blocks in `counts` that allows one.
pub(super) fn first_that_fits(
    costs: &Costs,
    budget: u64,
    mut counts: RangeInclusive<usize>,
) -> Option<Partition> {
    let layers = costs.layers();
    // For each number of blocks and each layer, where the smallest last block in front of that layer begins: it leaves the
    // most room.
    let fits = |to: usize| costs.block(0, to).bytes <= budget;
    let one = (0..=layers).map(|to| (to > 0 && fits(to)).then_some(0));
    let mut begins: Vec<Vec<Option<usize>>> = vec![one.collect()];
    let count = counts.find(|count| {
        while begins.len() < (*count).min(layers) {
            let next = one_more(costs, budget, &begins[begins.len() - 1]);
            begins.push(next);
        }
        *count == begins.len() && begins[count - 1][layers].is_some()
    })?;
    let mut points = Vec::new();
    let mut to = layers;
    for begins in begins[1..count].iter().rev() {
        to = begins[to]?;
        points.push(to as u32);
    }
    points.reverse();
    Some(Partition::at(costs, points))
}

/// Where the smallest last block in front of each layer begins, with one block more.
fn one_more(costs: &Costs, budget: u64, begins: &[Option<usize>]) -> Vec<Option<usize>> {
    let layers = costs.layers();
    let mut next = vec![None; layers + 1];
    for (from, begin) in begins.iter().enumerate().take(layers) {
        let Some(begin) = begin else { continue };
        let before = costs.block(*begin, from).bytes;
        let fits = |to: &usize| before + costs.block(from, *to).bytes <= budget;
        for to in (from + 1..=layers).take_while(fits) {
            next[to] = Some(from);
        }
    }
    next
}
