//! Partitions for many budgets, made before they are asked for.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::costs::Costs;
use super::partition::Partition;
use super::search::partition;

/// The best partitions of a model for budgets that were chosen in advance (SwapNet, Table 3).
#[derive(Clone, Debug)]
pub struct LookupTable {
    partitions: Vec<Partition>,
}

impl LookupTable {
    /// The table for `budgets` in bytes; those below [`Costs::least_budget`] have no entry.
    pub fn new(costs: &Costs, budgets: impl IntoIterator<Item = u64>) -> Self {
        let budgets = budgets.into_iter();
        let mut found: Vec<Partition> = budgets.filter_map(|at| partition(costs, at)).collect();
        found.sort_unstable_by_key(|one| (Reverse(one.peak_bytes), one.latency_ns));
        let mut partitions: Vec<Partition> = Vec::with_capacity(found.len());
        for one in found {
            // What fits into less memory and is as fast takes the place of what came before.
            let is_slower = |other: &mut Partition| other.latency_ns >= one.latency_ns;
            while partitions.pop_if(is_slower).is_some() {}
            if partitions
                .last()
                .is_none_or(|other| one.peak_bytes < other.peak_bytes)
            {
                partitions.push(one);
            }
        }
        Self { partitions }
    }

    /// The fastest partition of the table that needs at most `budget` bytes; none if each needs more.
    pub fn at(&self, budget: u64) -> Option<&Partition> {
        let needs_more = |partition: &Partition| partition.peak_bytes > budget;
        let first = self.partitions.partition_point(needs_more);
        self.partitions.get(first)
    }

    /// The entries: each needs less memory and takes longer than the one before.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }
}
