//! Tells the scheduler where the bytes of the task are.

use rtswap_policy::scheduler::{Event, EventError, Usage};
use rtswap_policy::units::Bytes;

use super::process::Process;
use super::request::TaskRequest;
use super::{MAX_PROCESSES, ProcessGroup};

/// The most bytes that one process is believed to hold: what all of a task claim together is possible
/// to the scheduler.
const MOST: Bytes = Bytes((1 << 50) / MAX_PROCESSES as u64);

/// What the scheduler was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) usage: Usage,
    /// The backing store of the task.
    pub(super) backing: Bytes,
    /// The usage may have changed since.
    pub(super) stale: bool,
}

impl ProcessGroup {
    pub(super) fn record_usage(&mut self, at: usize, usage: Usage) -> Result<(), EventError> {
        let process = &self.processes[at];
        let (most, pinned) = (process.most_swapped(), process.store.pinned);
        self.check_usage(usage, most, pinned)?;
        let process = &mut self.processes[at];
        process.take_usage(usage);
        self.told.stale |= process.is_present();
        let id = process.id;
        if matches!(self.budget.request, Some(TaskRequest::Fresh { asker, .. }) if asker == id) {
            self.budget.request = None;
        }
        Ok(())
    }

    /// Checks what a process says to hold: at most `swapped` bytes in a backing store of `pinned`.
    pub(super) fn check_usage(
        &self,
        usage: Usage,
        swapped: Bytes,
        pinned: Bytes,
    ) -> Result<(), EventError> {
        let task = self.task;
        usage.check(task, swapped, pinned, self.chunk)?;
        if usage.resident > MOST {
            let (what, bytes) = ("resident, more than any GPU has", usage.resident);
            return Err(EventError::Impossible { task, what, bytes });
        }
        Ok(())
    }

    /// Tells the scheduler of the usage, unless memory moves: until the end of a swap operation it
    /// needs only what the task may hold.
    pub(super) fn tell_usage(&mut self) {
        if self.swap.is_some() {
            return;
        }
        if self.overstates_store() {
            self.tell_regrouped(Bytes::ZERO);
        } else if self.told.stale {
            let (task, usage) = (self.task, self.usage());
            self.record_told(usage, self.told.backing);
            self.tell(Event::Usage { task, usage });
        }
    }

    /// Tells the scheduler of usage and backing store at once, because either alone would let it draw
    /// a wrong conclusion. `dying` bytes of the budget belong to a process that is gone.
    pub(super) fn tell_regrouped(&mut self, dying: Bytes) {
        let (task, usage, backing) = (self.task, self.usage(), self.backing());
        self.record_told(usage, backing);
        self.tell(Event::Regrouped {
            task,
            dying,
            usage,
            backing,
        });
    }

    pub(super) fn record_told(&mut self, usage: Usage, backing: Bytes) {
        self.told = Told {
            usage,
            backing,
            stale: false,
        };
    }

    /// Where the bytes of the task are.
    pub(super) fn usage(&self) -> Usage {
        let each = self.processes.iter().map(Process::counted);
        each.fold(Usage::default(), |sum, counted| Usage {
            resident: sum.resident + counted.resident,
            swapped: sum.swapped + counted.swapped,
            arena: sum.arena + counted.arena,
        })
    }
}
