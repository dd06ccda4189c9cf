//! Which addresses are a GPU's, for who cannot wait until its memory is unlocked.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Reserved addresses of one GPU. They are never given back.
#[derive(Debug, Default)]
pub struct Ranges(RwLock<Vec<Range<u64>>>);

impl Ranges {
    /// Adds `bytes` from `at` on.
    pub fn add(&self, at: u64, bytes: u64) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ranges.push(at..at.saturating_add(bytes));
    }

    /// Whether `at` is in one of them.
    pub fn contains(&self, at: u64) -> bool {
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ranges.iter().any(|range| range.contains(&at))
    }
}
