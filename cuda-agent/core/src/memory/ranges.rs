//! Which addresses are a GPU's, for who cannot wait until its memory is unlocked.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The arena's reserved addresses of one GPU, which are never given back, and those at which the
/// program mapped memory of it.
#[derive(Debug, Default)]
pub struct Ranges(RwLock<BTreeMap<u64, u64>>);

impl Ranges {
    /// Adds `bytes` from `at` on.
    pub fn add(&self, at: u64, bytes: u64) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ranges.insert(at, bytes);
    }

    /// Takes the range that starts at `at` out.
    pub fn remove(&self, at: u64) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ranges.remove(&at);
    }

    /// Whether `at` is in one of them.
    pub fn contains(&self, at: u64) -> bool {
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let before = ranges.range(..=at).next_back();
        before.is_some_and(|(start, bytes)| at - start < *bytes)
    }
}
