//! What the engine asks of a group.

use alloc::vec::Vec;

use rtswap_policy::units::Bytes;

use super::process::Process;
use super::{ProcessGroup, ProcessId};

impl ProcessGroup {
    /// Whether the task has no process, not even a missing one.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The bytes a process may hold.
    pub fn budget_of(&self, id: ProcessId) -> Bytes {
        let at = self.find(id);
        at.map_or(Bytes::ZERO, |at| self.processes[at].budget)
    }

    /// The bytes that the scheduler counts for a process: its budget, or what it reports to hold if
    /// that is more.
    pub fn held_by(&self, id: ProcessId) -> Bytes {
        let at = self.find(id);
        at.map_or(Bytes::ZERO, |at| self.processes[at].held())
    }

    /// The present processes that report to hold more than their budget.
    pub fn beyond_budget(&self) -> Vec<ProcessId> {
        let beyond = |process: &&Process| process.usage.resident > process.budget;
        let beyond = self.present().filter(beyond);
        beyond.map(|process| process.id).collect()
    }

    /// The present processes that have not ended their part in a swap operation.
    pub fn moving(&self) -> Vec<ProcessId> {
        let moving = self.present().filter(|process| process.moves());
        moving.map(|process| process.id).collect()
    }
}
