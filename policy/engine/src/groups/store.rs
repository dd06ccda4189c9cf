//! The task's backing store as those of its processes.
//!
//! One process's store is of no use to another, so the task's is not always their sum: the scheduler
//! believes that all of it can be filled, as far as there is arena. That holds for the sum while each
//! process's whole arena fits into its own store; otherwise only bytes for which a process has both
//! arena and store count.

use core::cmp::Reverse;

use rtswap_policy::scheduler::{Event, EventError};
use rtswap_policy::units::Bytes;

use super::process::{Presence, Process, ProcessStore};
use super::{Order, ProcessGroup, ProcessId};

impl ProcessGroup {
    pub(super) fn set_backing_store(&mut self, bytes: Bytes) {
        self.store_asked = Some(bytes);
        self.order_stores(bytes, bytes < self.told.backing);
    }

    /// Orders each process its share of `bytes`. A store that shrinks changes where its share does; one
    /// that grows where the process can pin more. That of a task with a deadline never shrinks: a driver that unpins
    /// may have the task's kernels wait.
    fn order_stores(&mut self, bytes: Bytes, shrinks: bool) {
        self.compute_stores(bytes);
        for at in 0..self.processes.len() {
            let bytes = self.scratch.shares[at];
            let process = &mut self.processes[at];
            let changes = if shrinks {
                bytes != process.store.pinned && !self.realtime
            } else {
                process.can_pin(bytes)
            };
            if changes && process.is_present() {
                process.store.asked = Some(bytes);
                self.order(at, Order::SetBackingStore { bytes });
            }
        }
    }

    /// Divides `bytes` of backing store into the scratch memory, less what is meant for processes
    /// that are not present: to those that have arena for it, first where it is pinned already. What
    /// is left is divided in proportion, for what they will yet allocate.
    fn compute_stores(&mut self, bytes: Bytes) {
        let chunk = self.chunk;
        let rest = bytes.saturating_sub(self.missing_budget().round_down(chunk));
        let Self {
            processes, scratch, ..
        } = self;
        scratch.begin(rest, processes, |_| Bytes::ZERO);
        let arena = |at: usize| processes[at].usage.arena;
        scratch
            .order
            .sort_unstable_by_key(|at| (Reverse(arena(*at)), *at));
        scratch.raise_each(|at| arena(at).min(processes[at].store.pinned).round_up(chunk));
        scratch.raise_each(|at| {
            let most = processes[at].store.most.unwrap_or(Bytes::MAX);
            arena(at).min(most).round_up(chunk)
        });
        let total: Bytes = scratch.order.iter().map(|at| arena(*at)).sum();
        let left = scratch.rest;
        for turn in 0..scratch.order.len() {
            let at = scratch.order[turn];
            let part = u128::from(left.0) * u128::from(arena(at).0);
            let part = part.checked_div(u128::from(total.0)).unwrap_or_default();
            let part = Bytes(u64::try_from(part).unwrap_or(u64::MAX));
            scratch.raise(at, (scratch.shares[at] + part).round_up(chunk));
        }
        if let Some(&first) = scratch.order.first() {
            scratch.raise(first, (scratch.shares[first] + rest).round_up(chunk));
        }
    }

    /// Whether a question for another store is open.
    pub fn is_store_asked(&self) -> bool {
        self.store_asked.is_some() || self.awaits_store()
    }

    /// A process may be able to pin more than it could when it was last told to.
    pub fn may_pin_more(&mut self, id: ProcessId) {
        if let Some(at) = self.find(id) {
            self.processes[at].store.most = None;
        }
    }

    pub(super) fn record_backing(&mut self, at: usize, bytes: Bytes) -> Result<(), EventError> {
        let task = self.task;
        let process = &mut self.processes[at];
        if bytes < process.most_swapped() {
            let what = "of backing store, less than is in use";
            return Err(EventError::Impossible { task, what, bytes });
        }
        let store = &mut process.store;
        store.pinned = bytes;
        if store.asked.take().is_some_and(|asked| bytes < asked) {
            store.most = Some(bytes);
        } else {
            store.most.take_if(|most| bytes > *most);
        }
        Ok(())
    }

    /// Answers the scheduler once all processes have answered. Those that can pin more are asked
    /// for what others could not pin, and for what has become arena meanwhile. A question for a larger
    /// store stays open while a process is missing: its silence is no refusal. Without a question
    /// from the scheduler, tells of a change.
    pub(super) fn settle_store(&mut self) {
        if self.swap.is_some() || self.awaits_store() {
            return;
        }
        let (task, bytes) = (self.task, self.backing());
        if let Some(asked) = self.store_asked {
            if bytes < asked {
                self.order_stores(asked, false);
                if self.awaits_store() {
                    return;
                }
                if self.missing_budget() > Bytes::ZERO {
                    // Missing processes have not refused.
                    if bytes > self.told.backing {
                        self.tell_regrouped(Bytes::ZERO);
                    }
                    return;
                }
            }
            self.store_asked = None;
        } else if bytes == self.told.backing {
            return;
        }
        self.told.backing = bytes;
        self.tell(Event::Backing { task, bytes });
    }

    /// Whether a present process has an order to pin to answer.
    fn awaits_store(&self) -> bool {
        self.present().any(|process| process.store.asked.is_some())
    }

    /// Whether the scheduler believes in a larger backing store than there is.
    pub(super) fn overstates_store(&self) -> bool {
        let told = self.told.backing;
        self.backing() < self.store_asked.map_or(told, |asked| asked.min(told))
    }

    /// The backing store of the task.
    pub(super) fn backing(&self) -> Bytes {
        let partial = self.processes.iter().any(Process::exceeds_store);
        let each = self.present().map(|process| {
            let pinned = process.store.pinned;
            if partial {
                pinned.min(process.usage.arena)
            } else {
                pinned
            }
        });
        each.sum()
    }
}

impl Process {
    /// Whether some of its arena cannot leave.
    fn exceeds_store(&self) -> bool {
        match self.presence {
            Presence::Present => self.store.pinned < self.usage.arena,
            Presence::Missing | Presence::Returning => self.budget > Bytes::ZERO,
        }
    }

    /// Whether an order to pin `bytes` may yield a larger store.
    fn can_pin(&self, bytes: Bytes) -> bool {
        let ProcessStore { pinned, most, .. } = self.store;
        bytes > pinned && most.is_none_or(|most| most > pinned)
    }
}
