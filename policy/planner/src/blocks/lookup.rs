//! Partitions for every budget, made before they are asked for.

use alloc::vec::Vec;

use super::costs::Costs;
use super::partition::Partition;
use super::search::partition;

/// The best partition of a model for each of many budgets (SwapNet, Table 3).
#[derive(Clone, Debug)]
pub struct LookupTable {
    /// The peak falls and the latency rises.
    partitions: Vec<Partition>,
}

impl LookupTable {
    /// The table of a model from its whole size down to its least budget. It tries budgets that differ by at least one part in
    /// `steps`, at least 1.
    pub fn new(costs: &Costs, steps: u64) -> Self {
        let mut partitions: Vec<Partition> = Vec::new();
        let mut budget = costs.whole().bytes;
        let least = costs.least_budget();
        while let Some(found) = partition(costs, budget) {
            // What fits into less memory and is as fast takes the place of what came before.
            let is_slower = |other: &Partition| other.latency_ns >= found.latency_ns;
            while partitions.pop_if(|other| is_slower(other)).is_some() {}
            let next = (budget - budget / steps.max(1)).min(found.peak_bytes);
            partitions.push(found);
            if budget <= least {
                break;
            }
            // The least budget itself is an entry: each budget that suffices for any partition has one.
            budget = next.saturating_sub(1).max(least);
        }
        Self { partitions }
    }

    /// The fastest partition of the table that needs at most `budget` bytes; none below the least budget.
    pub fn at(&self, budget: u64) -> Option<&Partition> {
        let first = self
            .partitions
            .partition_point(|partition| partition.peak_bytes > budget);
        self.partitions.get(first)
    }

    /// The entries: each needs less memory and takes longer than the one before.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }
}
