//! The files that the next daemon reads, as the shell keeps them: a checkpoint is written by a thread
//! of its own, and its records leave the journal once it is in place.

use std::collections::VecDeque;

use rtswap_engine::saved::{Record, Saved};

use super::Rng;

/// The most outputs until a checkpoint is in place, and then until its records are dropped.
const SLOWEST: u64 = 24;

/// A state, and the number of the last record that it includes.
#[derive(Clone, Debug, Default)]
struct Checkpoint {
    record: u64,
    saved: Saved,
}

/// Checkpoint and journal.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    rng: Rng,
    checkpoint: Checkpoint,
    /// The records by number.
    journal: VecDeque<(u64, Record)>,
    /// The number of the last record.
    last: u64,
    /// What the thread writes, and after how many outputs it is in place.
    writing: Option<(u64, Checkpoint)>,
    /// The last state that the thread was given meanwhile.
    next: Option<Checkpoint>,
    /// The last record to be dropped, and after how many outputs.
    drops: Option<(u64, u64)>,
}

impl Disk {
    /// Empty files, which are slow by a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng(seed),
            checkpoint: Checkpoint::default(),
            journal: VecDeque::new(),
            last: 0,
            writing: None,
            next: None,
            drops: None,
        }
    }

    /// Appends a record to the journal.
    pub(crate) fn record(&mut self, record: Record) {
        self.last += 1;
        self.journal.push_back((self.last, record));
    }

    /// Hands a state to the thread.
    pub(crate) fn checkpoint(&mut self, saved: Saved) {
        let record = self.last;
        self.next = Some(Checkpoint { record, saved });
        self.begin();
    }

    fn begin(&mut self) {
        if self.writing.is_none()
            && let Some(state) = self.next.take()
        {
            self.writing = Some((self.rng.below(SLOWEST), state));
        }
    }

    /// An output was carried out.
    pub(crate) fn step(&mut self) {
        if let Some((_, record)) = self.drops.take_if(|(left, _)| is_over(left)) {
            self.journal.retain(|(number, _)| *number > record);
        }
        if let Some((_, written)) = self.writing.take_if(|(left, _)| is_over(left)) {
            self.drops = Some((self.rng.below(SLOWEST), written.record));
            self.checkpoint = written;
            self.begin();
        }
    }

    /// The daemon is killed, and the thread with it. Returns what the next one reads.
    pub(crate) fn end_daemon(&mut self) -> Saved {
        (self.writing, self.next, self.drops) = (None, None, None);
        let Checkpoint { record, mut saved } = self.checkpoint.clone();
        self.last = record;
        for (number, record) in &self.journal {
            if *number > self.last {
                self.last = *number;
                saved.apply(record.clone());
            }
        }
        saved
    }
}

/// Counts down. True at the end.
fn is_over(left: &mut u64) -> bool {
    let is_over = *left == 0;
    *left = left.saturating_sub(1);
    is_over
}
