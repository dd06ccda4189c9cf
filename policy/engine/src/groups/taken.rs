//! What the processes of a task have or may take, for whoever caps it.

use core::iter::Sum;

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
        self.processes.iter().map(Process::taken).sum()
    }

    /// What the task would have if a process got a budget of `bytes`.
    pub fn taken_with(&self, id: ProcessId, bytes: Bytes) -> Taken {
        let with = |process: &Process| {
            let asked = if process.id == id { bytes } else { Bytes::ZERO };
            process.taken_with(asked + process.usage.swapped)
        };
        self.processes.iter().map(with).sum()
    }

    /// Has a process be told that its request is refused, without asking the scheduler.
    pub fn refuse_request(&mut self, now: Time, id: ProcessId, want: BudgetRequestSeq) {
        if let Some(at) = self.find(id) {
            self.processes[at].denied = Some(want);
            self.mark_dirty(now);
        }
    }
}

impl Process {
    fn taken(&self) -> Taken {
        self.taken_with(Bytes::ZERO)
    }

    /// What it has, or `total` where that is more.
    fn taken_with(&self, total: Bytes) -> Taken {
        let usage = self.counted();
        let used = usage.resident + usage.swapped;
        // Nobody has looked at what it asked for, but may grant it at any time.
        let requested = self.request.map_or(Bytes::ZERO, |request| request.total);
        let all = (self.may_hold() + self.stays_out())
            .max(used)
            .max(requested)
            .max(total);
        Taken {
            all,
            // Whatever it allocates next may be swappable.
            swappable: usage.arena + all.saturating_sub(used),
        }
    }

    /// What it may have on the GPU by the last budget that it was told.
    fn may_hold(&self) -> Bytes {
        if self.is_present() && !self.unbudgeted {
            self.ordered.max(self.usage.resident)
        } else {
            self.held()
        }
    }

    /// What is in its backing store and has no place in its budget: what a swap moves, either way, has one.
    fn stays_out(&self) -> Bytes {
        let swapped = self.usage.swapped;
        let moving = self.part.filter(|part| part.ended.is_none());
        moving.map_or(swapped, |part| swapped.min(part.from).min(part.target))
    }
}

impl Sum for Taken {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, taken| Self {
            all: sum.all + taken.all,
            swappable: sum.swappable + taken.swappable,
        })
    }
}

#[cfg(test)]
mod tests {
    use rtswap_policy::scheduler::{SwapSeq, Usage};

    use super::super::process::{BudgetRequest, Presence, SwapPart};
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Six chunks of 1 MiB, of which `swapped` are out.
    fn process(swapped: u64, budget: u64) -> Process {
        Process {
            presence: Presence::Present,
            usage: Usage {
                resident: Bytes((6 - swapped) * MIB),
                swapped: Bytes(swapped * MIB),
                arena: Bytes(6 * MIB),
            },
            budget: Bytes(budget * MIB),
            ordered: Bytes(budget * MIB),
            ..Process::new(ProcessId(0))
        }
    }

    fn moving(mut process: Process, from: u64, target: u64) -> Process {
        process.part = Some(SwapPart {
            seq: SwapSeq(1),
            from: Bytes(from * MIB),
            target: Bytes(target * MIB),
            credit: None,
            aborted: false,
            ended: None,
        });
        process
    }

    fn mib(taken: Taken) -> (u64, u64) {
        (taken.all.0 / MIB, taken.swappable.0 / MIB)
    }

    #[test]
    fn memory_that_moves_counts_once() {
        assert_eq!(mib(process(5, 1).taken()), (6, 6));
        for swapped in 0..=5 {
            // Its budget grows before its memory comes in, and falls when it is out.
            assert_eq!(mib(moving(process(swapped, 6), 5, 0).taken()), (6, 6));
            assert_eq!(mib(moving(process(swapped, 6), 0, 5).taken()), (6, 6));
        }
        let mut lowered = process(5, 6);
        lowered.ordered = Bytes(MIB);
        assert_eq!(mib(lowered.taken()), (6, 6));
    }

    #[test]
    fn what_is_asked_for_counts_before_it_is_granted() {
        let mut process = process(2, 5);
        assert_eq!(mib(process.taken()), (7, 7), "it may take one more");
        process.request = Some(BudgetRequest {
            seq: None,
            total: Bytes(9 * MIB),
        });
        assert_eq!(mib(process.taken()), (9, 9));
        assert_eq!(mib(process.taken_with(Bytes(8 * MIB))), (9, 9));
        assert_eq!(mib(process.taken_with(Bytes(11 * MIB))), (11, 11));
    }

    #[test]
    fn of_one_that_is_silent_all_that_it_had_counts() {
        let mut process = process(2, 5);
        process.presence = Presence::Missing;
        assert_eq!(mib(process.taken()), (7, 7));
    }
}
