//! Divisions to begin with: as many objects of each class as a schedule needs, cut in proportion to fit the budget.

use alloc::vec;
use alloc::vec::Vec;

use super::pools::Pools;
use crate::graph::Graph;

/// The sizes of a class differ by less than such factors, in percent: the larger, the fewer classes there are.
const SPREADS: [u128; 6] = [100, 110, 125, 150, 200, 400];

/// Divisions of `budget` for the graph's own order of operators, from a class for each size to few classes; only those in
/// which each operator finds its tensors.
pub(super) fn fitted(graph: &Graph, budget: u64) -> Vec<Pools> {
    let mut all: Vec<Pools> = Vec::new();
    for spread in SPREADS {
        if let Some(pools) = fit(graph, &classes(graph, spread), budget)
            && all.last() != Some(&pools)
        {
            all.push(pools);
        }
    }
    all
}

/// Joins sizes to classes, each with what the largest of it has in common with at most `spread` percent.
fn classes(graph: &Graph, spread: u128) -> Vec<u32> {
    let (mut class, mut first) = (0, None);
    let class_of = graph.sizes().iter().map(|size| {
        let first_of_class = *first.get_or_insert(*size);
        if u128::from(*size) * 100 > u128::from(first_of_class) * spread {
            class += 1;
            first = Some(*size);
        }
        class
    });
    class_of.collect()
}

/// The division with the most objects of these classes that fit, between what one operator needs and what the graph's order
/// needs if nothing is swapped.
fn fit(graph: &Graph, class_of: &[u32], budget: u64) -> Option<Pools> {
    let (needed, used) = counts(graph, class_of);
    let with = |part: u64| -> Pools {
        let counts = needed.iter().zip(&used);
        let count = |(needed, used): (&u32, &u32)| {
            needed + (u64::from(used - needed) * part / PARTS) as u32
        };
        let counts: Vec<u32> = counts.map(count).collect();
        Pools::new(graph, class_of.to_vec(), &counts, u64::MAX)
    };
    let (mut fits, mut exceeds) = (0, PARTS + 1);
    if with(fits).bytes() > budget {
        return None;
    }
    while exceeds - fits > 1 {
        let middle = u64::midpoint(fits, exceeds);
        let place = if with(middle).bytes() > budget {
            &mut exceeds
        } else {
            &mut fits
        };
        *place = middle;
    }
    Some(with(fits))
}

/// Steps from what one operator needs to what all need.
const PARTS: u64 = 1 << 16;

/// Of each class, the most tensors that one operator uses, and the most that are there at once if nothing is swapped.
fn counts(graph: &Graph, class_of: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let classes = class_of.last().map_or(0, |last| *last as usize + 1);
    let class = |id: u32| class_of[graph.size_index(id)] as usize;
    let mut last = vec![0; graph.tensors().len()];
    for (at, operator) in graph.operators().iter().enumerate() {
        for id in operator.tensors() {
            last[id as usize] = at;
        }
    }
    let mut there = vec![0_u32; classes];
    for (id, tensor) in (0..).zip(graph.tensors()) {
        there[class(id)] += u32::from(tensor.kind.is_given());
    }
    let mut used = there.clone();
    let mut needed = vec![0_u32; classes];
    let mut own = vec![0_u32; classes];
    for (at, operator) in graph.operators().iter().enumerate() {
        for id in operator.outputs.iter().copied() {
            there[class(id)] += 1;
            used[class(id)] = used[class(id)].max(there[class(id)]);
        }
        for id in operator.tensors() {
            own[class(id)] += 1;
            needed[class(id)] = needed[class(id)].max(own[class(id)]);
        }
        for id in operator.tensors() {
            own[class(id)] = 0;
            let is_gone = last[id as usize] == at && !graph.tensor(id).kind.is_kept();
            there[class(id)] -= u32::from(is_gone);
        }
    }
    (needed, used)
}
