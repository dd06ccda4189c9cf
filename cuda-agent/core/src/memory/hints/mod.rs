//! What the program says that its kernels do not write, and which chunks equal their slots since.
//! A chunk whose objects are all covered equals its slot after each copy, until the host or a copy
//! engine writes there. Pure, but for its lock: writes are noted while the memory's is held.
//!
//! Each hook's row says what its function writes; a function that does not say dirties every hinted
//! chunk. A hint lasts as long as the object. An allocator of the program's own gives memory to others
//! without a call of the driver, so a program that hints through one takes the hint back first
//! (`rtswap_hint_writable`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, fence};

use crate::gate::lock_briefly;

/// Whether this process ever gave a hint.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether writes must be noted, asked within the call that writes.
///
/// A write that is not noted does no harm. Its call entered through an open gate. Either it is
/// waited for before anything is found equal to its slot; or it saw the gate that was opened after
/// that, and then the fence shows it the hint as well.
#[inline]
pub fn any() -> bool {
    fence(Acquire);
    ANY.load(Relaxed)
}

/// The hints for one GPU's arena.
#[derive(Debug)]
pub struct Hints {
    /// δ in bytes.
    chunk: u64,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// What kernels do not write: start → end. They neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    /// Chunks that equal their slots, by address: these are never copied out.
    equal: BTreeSet<u64>,
}

impl Hints {
    /// None; `chunk` is δ in bytes.
    pub(super) fn new(chunk: u64) -> Self {
        let book = Mutex::default();
        Self { chunk, book }
    }

    /// Kernels do not write `bytes` from `at` on.
    pub(super) fn add(&self, at: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        ANY.store(true, Relaxed);
        lock_briefly(&self.book).add(at, at.saturating_add(bytes));
    }

    /// Takes back what was said of `bytes` from `at` on: other memory is there now.
    pub fn forget(&self, at: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut book = lock_briefly(&self.book);
        book.cut(at, at.saturating_add(bytes));
        book.differ(self.chunks(at, bytes));
    }

    /// `bytes` from `at` on may be written.
    pub fn written(&self, at: u64, bytes: u64) {
        lock_briefly(&self.book).differ(self.chunks(at, bytes));
    }

    /// Anything may be written.
    pub fn all_written(&self) {
        lock_briefly(&self.book).equal.clear();
    }

    /// The chunk at `at` was copied to its slot or from it. It equals it until it is written, if
    /// all `objects` are covered: starts and ends.
    pub(super) fn copied(&self, at: u64, mut objects: impl Iterator<Item = (u64, u64)>) {
        let mut book = lock_briefly(&self.book);
        if !book.ranges.is_empty() && objects.all(|(start, end)| book.covers(start, end)) {
            book.equal.insert(at);
        }
    }

    /// Whether the chunk at `at` equals its slot.
    pub(super) fn equals_slot(&self, at: u64) -> bool {
        lock_briefly(&self.book).equal.contains(&at)
    }

    /// The addresses of chunks that have some of `bytes` from `at` on, those that exist or not.
    fn chunks(&self, at: u64, bytes: u64) -> Range<u64> {
        if bytes == 0 {
            return at..at;
        }
        at / self.chunk * self.chunk..at.saturating_add(bytes)
    }
}

impl Book {
    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back()
            && to >= start
        {
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start, end);
    }

    fn cut(&mut self, start: u64, end: u64) {
        while let Some((&from, &to)) = self.ranges.range(..end).next_back()
            && to > start
        {
            self.ranges.remove(&from);
            if to > end {
                self.ranges.insert(end, to);
            }
            if from < start {
                self.ranges.insert(from, start);
            }
        }
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        let before = self.ranges.range(..=start).next_back();
        before.is_some_and(|(_, &to)| to >= end)
    }

    fn differ(&mut self, chunks: Range<u64>) {
        let written: Vec<u64> = self.equal.range(chunks).copied().collect();
        for chunk in written {
            self.equal.remove(&chunk);
        }
    }
}

#[cfg(test)]
mod tests;
