//! The division of a budget into objects of a few sizes, as SwapAdvisor's sections 4.1 and 5.3 have it.

use alloc::vec;
use alloc::vec::Vec;

use super::rng::Rng;
use crate::graph::Graph;

/// Objects begin at multiples of so many bytes: cuDNN's and cuBLAS's kernels ask for no more.
const ALIGNMENT: u64 = 256;

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
    /// The paper's CLS: the class of each of [`Graph::sizes`]. It begins with 0 and never falls; from one size to the next
    /// it grows by one or not at all.
    class_of: Vec<u32>,
    /// With the counts, the paper's CNT.
    classes: Vec<Class>,
}

impl Pools {
    /// The division with these classes of [`Graph::sizes`], and so many objects of each class, but no more than there are
    /// tensors. Where the objects together exceed `budget`, all counts fall in proportion.
    pub fn new(graph: &Graph, class_of: Vec<u32>, counts: &[u32], budget: u64) -> Self {
        let mut classes = vec![Class { bytes: 0, count: 0 }; counts.len()];
        let sizes = graph.sizes().iter().zip(graph.size_counts());
        for ((size, tensors), class) in sizes.zip(&class_of) {
            let class = &mut classes[*class as usize];
            class.bytes = class.bytes.max(size.next_multiple_of(ALIGNMENT));
            class.count += tensors;
        }
        for (class, count) in classes.iter_mut().zip(counts) {
            class.count = class.count.min(*count);
        }
        repair(&mut classes, budget);
        Self { class_of, classes }
    }

    /// One object for each tensor: what infinite memory would be.
    pub fn of_all(graph: &Graph) -> Self {
        let classes = (0..graph.sizes().len() as u32).collect();
        Self::new(graph, classes, graph.size_counts(), u64::MAX)
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
        u64::try_from(bytes(&self.classes)).unwrap_or(u64::MAX)
    }

    /// A division of `budget` that a seed chooses.
    pub fn any(graph: &Graph, budget: u64, seed: u64) -> Self {
        Self::random(graph, budget, &mut Rng::new(seed))
    }

    /// Any division of `budget`.
    pub(super) fn random(graph: &Graph, budget: u64, rng: &mut Rng) -> Self {
        let splits = rng.unit();
        let mut class = 0;
        let class_of: Vec<u32> = (0..graph.sizes().len())
            .map(|at| {
                class += u32::from(at > 0 && rng.chance(splits));
                class
            })
            .collect();
        let share = budget as f64 / graph.sizes().len() as f64;
        let counts = graph
            .sizes()
            .iter()
            .map(|size| rng.unit() * 2.0 * share / *size as f64);
        let counts: Vec<f64> = counts.collect();
        Self::mean(graph, class_of, &counts, budget)
    }

    /// The classes and counts of the smallest `at` sizes of `front`, and the others of `back`.
    pub(super) fn cross(graph: &Graph, front: &Self, back: &Self, at: usize, budget: u64) -> Self {
        let mut class_of = front.class_of[..at].to_vec();
        let mut raised = 0;
        for (place, class) in back.class_of.iter().enumerate().skip(at) {
            let last = class_of.last().copied().unwrap_or_default();
            let wanted = class + raised;
            // As little higher as makes it valid, or lower where it would leave a class out.
            let valid = wanted.clamp(last, last + u32::from(place > 0));
            raised = raised.max(valid.saturating_sub(*class));
            class_of.push(valid);
        }
        let (front, back) = (front.extended(), back.extended());
        let counts: Vec<f64> = front[..at].iter().chain(&back[at..]).copied().collect();
        Self::mean(graph, class_of, &counts, budget)
    }

    /// Classes that split or join their neighbours, and counts that vary, each with a chance of `mutation`.
    pub(super) fn mutated(&self, graph: &Graph, budget: u64, mutation: f64, rng: &mut Rng) -> Self {
        let mut class_of = self.class_of.clone();
        let mut counts = self.extended();
        for at in 1..class_of.len() {
            if !rng.chance(mutation) {
                continue;
            }
            let grows = class_of[at] == class_of[at - 1];
            for class in &mut class_of[at..] {
                *class = if grows { *class + 1 } else { *class - 1 };
            }
        }
        for count in &mut counts {
            if rng.chance(mutation) {
                // A quarter of the count either way, seldom more.
                *count += rng.normal() * (*count * 0.25).max(1.0);
            }
        }
        Self::mean(graph, class_of, &counts, budget)
    }

    /// The paper's CNT_EXT: for each size the count of its class.
    fn extended(&self) -> Vec<f64> {
        let count = |class: &u32| f64::from(self.classes[*class as usize].count);
        self.class_of.iter().map(count).collect()
    }

    /// The division with the mean of the extended counts of each class.
    fn mean(graph: &Graph, class_of: Vec<u32>, counts: &[f64], budget: u64) -> Self {
        let classes = class_of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut sums = vec![(0.0, 0.0); classes];
        for (class, count) in class_of.iter().zip(counts) {
            let (sum, number) = &mut sums[*class as usize];
            *sum += count.max(0.0);
            *number += 1.0;
        }
        let counts: Vec<u32> = sums
            .iter()
            .map(|(sum, number)| (sum / number + 0.5) as u32)
            .collect();
        Self::new(graph, class_of, &counts, budget)
    }
}

fn bytes(classes: &[Class]) -> u128 {
    let of = |class: &Class| u128::from(class.bytes) * u128::from(class.count);
    classes.iter().map(of).sum()
}

/// Cuts the counts until all objects fit: first all in proportion, then the memory that rounding left free is filled with
/// objects again, the largest first. Each class keeps an object as long as there is room.
fn repair(classes: &mut [Class], budget: u64) {
    let budget = u128::from(budget);
    let wanted = bytes(classes);
    if wanted <= budget {
        return;
    }
    let before: Vec<u32> = classes.iter().map(|class| class.count).collect();
    for class in classes.iter_mut() {
        let kept = u128::from(class.count) * budget / wanted;
        class.count = u32::try_from(kept)
            .unwrap_or(u32::MAX)
            .max(class.count.min(1));
    }
    // One object of each may be too much.
    while bytes(classes) > budget {
        let has_some = classes.iter_mut().filter(|class| class.count > 0);
        let size = |class: &&mut Class| u128::from(class.bytes) * u128::from(class.count);
        let Some(class) = has_some.max_by_key(size) else {
            return;
        };
        class.count -= 1;
    }
    let mut left = budget - bytes(classes);
    for (class, before) in classes.iter_mut().zip(before).rev() {
        let fit = u32::try_from(left / u128::from(class.bytes.max(1))).unwrap_or(u32::MAX);
        let more = fit.min(before - class.count);
        class.count += more;
        left -= u128::from(more) * u128::from(class.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, Kind, Operator, Tensor};

    const MB: u64 = 1 << 20;

    /// Eight tensors of each of 1, 2, 3 and 4 MB.
    fn four_sizes() -> Graph {
        let tensor = |at: u64| Tensor {
            name: alloc::string::String::new(),
            kind: Kind::Activation,
            bytes: (1 + at % 4) * MB,
        };
        let operator = Operator {
            name: alloc::string::String::new(),
            inputs: Vec::new(),
            outputs: (0..32).collect(),
            updates: Vec::new(),
            flops: 0,
            bytes: 0,
            time_ns: 1,
            is_random: false,
        };
        Graph::new((0..32).map(tensor).collect(), vec![operator]).expect("a graph")
    }

    fn counts(pools: &Pools) -> Vec<u32> {
        pools.classes().iter().map(|class| class.count).collect()
    }

    /// SwapAdvisor's Fig. 5: 12 MB, one class of four objects of 4 MB, and two classes of eight of 1 MB and one of 4 MB.
    #[test]
    fn figure_5() {
        let graph = four_sizes();
        let one = Pools::new(&graph, vec![0, 0, 0, 0], &[4], u64::MAX);
        let other = Pools::new(&graph, vec![0, 1, 1, 1], &[8, 1], 12 * MB);
        let child = Pools::cross(&graph, &other, &one, 2, u64::MAX);
        assert_eq!(child.class_of(), [0, 1, 1, 1]);
        assert_eq!(counts(&child), [8, 3]);
        let child = Pools::cross(&graph, &other, &one, 2, 12 * MB);
        assert_eq!(counts(&child), [4, 2]);
        let child = Pools::cross(&graph, &one, &other, 2, 12 * MB);
        assert_eq!(child.class_of(), [0, 0, 1, 1]);
    }

    #[test]
    fn counts_that_exceed_the_budget_are_repaired() {
        let graph = four_sizes();
        let pools = Pools::new(&graph, vec![0, 1, 1, 1], &[8, 3], 12 * MB);
        // The paper's own example.
        assert_eq!(counts(&pools), [4, 2]);
        assert_eq!(pools.bytes(), 12 * MB);
    }
}
