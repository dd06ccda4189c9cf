//! What the processes of a task have or may take, for whoever caps it or tells others what they may have.

use core::iter::Sum;

use rtswap_policy::scheduler::{BudgetRequestSeq, Usage};
use rtswap_policy::units::{Bytes, Time};

use super::process::{Process, ToldSize};
use super::{ProcessGroup, ProcessId};

/// Bytes of a task on one GPU, swapped out or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// All that its processes have or may take without another request.
    pub all: Bytes,
    /// What of that may be swapped out, and so need backing store.
    pub swappable: Bytes,
}

/// The backing store that the scheduler asks for memory of `bytes`: a quarter more.
fn store_for(bytes: Bytes) -> Bytes {
    bytes + Bytes(bytes.0 / 4)
}

/// The memory that a backing store of `bytes` is for, by the same rule.
pub fn served_by(bytes: Bytes) -> Bytes {
    bytes.saturating_sub(Bytes(bytes.0 / 5))
}

/// What memory a task may come to need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// All that it has or may take.
    pub all: Bytes,
    /// The host memory that holds what of it may be out, what is pinned already included.
    pub backed: Bytes,
    /// What of that is pinned.
    pub pinned: Bytes,
    /// What is pinned or was told to be.
    pub ordered: Bytes,
    /// What of `all` its processes were told that they may have.
    pub told: Bytes,
}

/// What one process needs of the host.
#[derive(Clone, Copy, Debug)]
pub struct StoreNeed {
    /// The process that needs it.
    pub process: ProcessId,
    /// What of its store is pinned.
    pub pinned: Bytes,
    /// What holds all of its memory that may be out.
    pub backed: Bytes,
    /// It was told to pin, and has not answered.
    pub is_pinning: bool,
}

impl ProcessGroup {
    /// What the task may come to need. A planned task's backing store is pinned before its plan counts, and needs
    /// no more; what it has on the GPU counts with its plan.
    pub fn need(&self) -> Need {
        let mut sum: Need = self.processes.iter().map(Process::need).sum();
        if self.realtime {
            sum.all = Bytes::ZERO;
            sum.backed = sum.ordered.max(self.store_asked.unwrap_or_default());
        }
        sum
    }

    /// What one of its processes may come to need.
    pub fn need_of(&self, id: ProcessId) -> Need {
        self.find(id)
            .map(|at| self.processes[at].need())
            .unwrap_or_default()
    }

    /// What each of its processes needs of the host.
    pub fn store_needs(&self) -> impl Iterator<Item = StoreNeed> {
        self.processes.iter().map(|process| {
            let Need {
                pinned,
                ordered,
                backed,
                ..
            } = process.need();
            StoreNeed {
                process: process.id,
                pinned,
                backed: if self.realtime { ordered } else { backed },
                is_pinning: process.store.asked.is_some(),
            }
        })
    }

    /// What its other processes have.
    pub fn taken_by_others(&self, id: ProcessId) -> Taken {
        let others = self.processes.iter().filter(|process| process.id != id);
        others.map(Process::taken).sum()
    }

    /// Where the bytes of one of its processes are.
    pub fn usage_of(&self, id: ProcessId) -> Usage {
        self.find(id)
            .map(|at| self.processes[at].usage)
            .unwrap_or_default()
    }

    /// The bytes that a process was told first, while they are reserved for it.
    pub fn reserved(&self, id: ProcessId) -> Option<Bytes> {
        let told = self.processes[self.find(id)?].told?;
        told.is_reserved.then_some(told.bytes)
    }

    /// Notes what a process is told for the first time, and reserves it. False if it was told before, has begun to take
    /// memory that may be swapped, or has no context: it is told what there is, and nothing is kept for it.
    pub fn reserve(&mut self, id: ProcessId, bytes: Bytes) -> bool {
        let Some(at) = self.find(id) else {
            return false;
        };
        let process = &mut self.processes[at];
        let has_context = process.usage.resident > Bytes::ZERO;
        if process.told.is_some() || process.usage.arena > Bytes::ZERO || !has_context {
            return false;
        }
        process.told = Some(ToldSize {
            bytes,
            is_reserved: true,
        });
        true
    }

    /// What a process was told is reserved for it no longer.
    pub fn end_reservation(&mut self, id: ProcessId) {
        if let Some(at) = self.find(id)
            && let Some(told) = &mut self.processes[at].told
        {
            told.is_reserved = false;
        }
    }

    /// Whether a process was told a size, or has begun to take memory that may be swapped.
    pub fn is_sized(&self, id: ProcessId) -> bool {
        self.find(id).is_some_and(|at| {
            let process = &self.processes[at];
            process.told.is_some() || process.usage.arena > Bytes::ZERO
        })
    }

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
    /// Without what it has asked for and nobody has looked at: that may be any number.
    fn need(&self) -> Need {
        let taken = self.taken_without_request(Bytes::ZERO);
        let pinned = self.store.pinned;
        Need {
            all: taken.all,
            backed: store_for(taken.swappable).max(pinned),
            pinned,
            ordered: self.store.asked.map_or(pinned, |asked| asked.max(pinned)),
            told: self
                .told
                .map_or(Bytes::ZERO, |told| told.bytes.min(taken.all)),
        }
    }

    fn taken(&self) -> Taken {
        self.taken_with(Bytes::ZERO)
    }

    /// What it has, or `total` where that is more.
    fn taken_with(&self, total: Bytes) -> Taken {
        // Nobody has looked at what it asked for, but may grant it at any time.
        let requested = self.request.map_or(Bytes::ZERO, |request| request.total);
        self.taken_without_request(total.max(requested))
    }

    fn taken_without_request(&self, total: Bytes) -> Taken {
        let usage = self.counted();
        let used = usage.resident + usage.swapped;
        let reserved = self.told.filter(|told| told.is_reserved);
        let reserved = reserved.map_or(Bytes::ZERO, |told| told.bytes);
        let all = (self.may_hold() + self.stays_out())
            .max(used)
            .max(reserved)
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

impl Sum for Need {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, need| Self {
            all: sum.all + need.all,
            backed: sum.backed + need.backed,
            pinned: sum.pinned + need.pinned,
            ordered: sum.ordered + need.ordered,
            told: sum.told + need.told,
        })
    }
}

#[cfg(test)]
mod tests {
    use rtswap_policy::scheduler::SwapSeq;

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
