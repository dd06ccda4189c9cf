//! What the processes of a task have or may take, for whoever caps it.

use rtswap_policy::scheduler::BudgetRequestSeq;
use rtswap_policy::units::{Bytes, Time};

use super::process::Process;
use super::{ProcessGroup, ProcessId};

/// Bytes of a task on one GPU, swapped out or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// All that its processes have or may take without another request.
    pub all: Bytes,
    /// What of that may be swapped out, and so need backing store.
    pub swappable: Bytes,
}

impl ProcessGroup {
    /// What the task has.
    pub fn taken(&self) -> Taken {
        self.sum(|_| Bytes::ZERO)
    }

    /// What the task would have if a process got a budget of `bytes`.
    pub fn taken_with(&self, id: ProcessId, bytes: Bytes) -> Taken {
        self.sum(|process| if process.id == id { bytes } else { Bytes::ZERO })
    }

    fn sum(&self, budget: impl Fn(&Process) -> Bytes) -> Taken {
        let add = |sum: Taken, process: &Process| {
            let usage = process.counted();
            let held = process.held().max(budget(process));
            Taken {
                all: sum.all + held + process.usage.swapped,
                swappable: sum.swappable + usage.arena + held.saturating_sub(usage.resident),
            }
        };
        self.processes.iter().fold(Taken::default(), add)
    }

    /// Has a process be told that its request is refused, without asking the scheduler.
    pub fn refuse_request(&mut self, now: Time, id: ProcessId, want: BudgetRequestSeq) {
        if let Some(at) = self.find(id) {
            self.processes[at].denied = Some(want);
            self.mark_dirty(now);
        }
    }
}
