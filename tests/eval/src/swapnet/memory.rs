//! What a model takes in memory, counted as the paper counts (sections 2.2, 4.1 and 8.2).

use super::models::Processor;

/// The copies of each parameter where it is read through the page cache: one in the page cache, one in the memory of the
/// process, and on the GPU one more, in GPU format in the same physical memory.
pub fn copies(processor: Processor) -> u64 {
    match processor {
        Processor::Cpu => 2,
        Processor::Gpu => 3,
    }
}

/// By how many percent `less` is below `more`.
pub fn reduction(less: f64, more: f64) -> f64 {
    100.0 * (1.0 - less / more)
}
