//! Where the tensors lie that are not streamed.

use alloc::vec;
use alloc::vec::Vec;

use crate::graph::{Graph, TensorId};
use crate::plan::Extent;

/// A tensor while it needs memory: from before the first of these operators until behind the last one.
struct Stay {
    tensor: TensorId,
    bytes: u64,
    first: usize,
    last: usize,
}

/// A place for each tensor that operators use and that is not streamed, so that no two overlap while both are needed.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    /// The place of each tensor in the arena, if it has one.
    pub(super) places: Vec<Option<Extent>>,
    /// The size of the arena in bytes.
    pub(super) bytes: u64,
}

impl Arena {
    /// The arena of a graph whose operators run in its own order. What is given is in memory from the beginning, and what is
    /// kept stays to the end. The largest tensors are placed first, each as low as it can be.
    pub(super) fn of(graph: &Graph, is_streamed: &[bool]) -> Self {
        let mut stays = stays(graph, is_streamed);
        stays.sort_by_key(|stay| core::cmp::Reverse(stay.bytes));
        let mut arena = Self {
            places: vec![None; graph.tensors().len()],
            bytes: 0,
        };
        // In the order of their offsets.
        let mut placed: Vec<(Extent, usize, usize)> = Vec::new();
        for stay in stays {
            let mut offset = 0;
            for (extent, first, last) in &placed {
                if *last < stay.first || *first > stay.last {
                    continue;
                }
                if extent.offset >= offset + stay.bytes {
                    break;
                }
                offset = offset.max(extent.end());
            }
            let extent = Extent {
                offset,
                bytes: stay.bytes,
            };
            let at = placed.partition_point(|(other, ..)| other.offset <= offset);
            placed.insert(at, (extent, stay.first, stay.last));
            arena.places[stay.tensor as usize] = Some(extent);
            arena.bytes = arena.bytes.max(extent.end());
        }
        arena
    }
}

fn stays(graph: &Graph, is_streamed: &[bool]) -> Vec<Stay> {
    let mut used: Vec<Option<(usize, usize)>> = vec![None; graph.tensors().len()];
    for (at, operator) in graph.operators().iter().enumerate() {
        for id in operator.tensors() {
            let first = used[id as usize].map_or(at, |(first, _)| first);
            used[id as usize] = Some((first, at));
        }
    }
    let each = (0..).zip(graph.tensors()).zip(used);
    let stay =
        |((tensor, of), used): ((TensorId, &crate::graph::Tensor), Option<(usize, usize)>)| {
            let (first, last) = used?;
            (!is_streamed[tensor as usize]).then(|| Stay {
                tensor,
                bytes: of.bytes,
                first: if of.kind.is_given() { 0 } else { first },
                last: if of.kind.is_kept() { usize::MAX } else { last },
            })
        };
    each.filter_map(stay).collect()
}
