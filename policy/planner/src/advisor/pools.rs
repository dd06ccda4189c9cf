//! The division of a budget into objects of a few sizes, as SwapAdvisor's sections 4.1 and 5.3 have it.

use alloc::vec;
use alloc::vec::Vec;

use crate::graph::Graph;

/// Objects begin at multiples of so many bytes: cuDNN's and cuBLAS's kernels ask for no more.
pub const ALIGNMENT: u64 = 256;

/// A size class: objects of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bytes of an object: the largest tensor size of the class, aligned.
    pub bytes: u64,
    /// How many objects.
    pub count: u32,
}

/// A division of a budget: the class of each tensor size, and the objects of each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// The class of each of [`Graph::sizes`]. It begins with 0 and never falls; from one size to the next it grows by one
    /// or not at all.
    class_of: Vec<u32>,
    classes: Vec<Class>,
}

impl Pools {
    /// The division with these classes of sizes, and so many objects of each class; the counts are cut where the objects
    /// together exceed `budget` ([`Self::repair`]).
    pub fn new(graph: &Graph, class_of: Vec<u32>, counts: &[u32], budget: u64) -> Self {
        let mut classes = vec![Class { bytes: 0, count: 0 }; counts.len()];
        for (size, class) in graph.sizes().iter().zip(&class_of) {
            let class = &mut classes[*class as usize];
            class.bytes = class.bytes.max(size.next_multiple_of(ALIGNMENT));
        }
        for (class, count) in classes.iter_mut().zip(counts) {
            class.count = *count;
        }
        let mut pools = Self { class_of, classes };
        pools.repair(budget);
        pools
    }

    /// One object for each tensor: what infinite memory would be.
    pub fn of_all(graph: &Graph) -> Self {
        let sizes = graph.sizes().len();
        let mut counts = vec![0_u32; sizes];
        for id in 0..graph.tensors().len() as u32 {
            counts[graph.size_index(id)] += 1;
        }
        Self::new(graph, (0..sizes as u32).collect(), &counts, u64::MAX)
    }

    /// Takes objects away until the others fit: of each class the fewer, the larger its objects are, and as few as that
    /// needs.
    fn repair(&mut self, budget: u64) {
        let bytes = |classes: &[Class]| -> u128 {
            let of = |class: &Class| u128::from(class.bytes) * u128::from(class.count);
            classes.iter().map(of).sum()
        };
        let total = bytes(&self.classes);
        if total <= budget.into() {
            return;
        }
        for class in &mut self.classes {
            let kept = u128::from(class.count) * u128::from(budget) / total;
            class.count = u32::try_from(kept).unwrap_or(u32::MAX).max(1);
        }
        // At least one of each may be too much.
        while bytes(&self.classes) > budget.into() {
            let largest = self.classes.iter_mut().filter(|class| class.count > 0);
            let Some(class) = largest.max_by_key(|class| u128::from(class.bytes) * u128::from(class.count))
            else {
                return;
            };
            class.count -= 1;
        }
    }

    /// The classes, those of the smallest objects first.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class of each of [`Graph::sizes`].
    pub fn class_of(&self) -> &[u32] {
        &self.class_of
    }

    /// Bytes of all objects together.
    pub fn bytes(&self) -> u64 {
        let of = |class: &Class| class.bytes.saturating_mul(class.count.into());
        self.classes.iter().map(of).fold(0, u64::saturating_add)
    }
}
