//! Handing out device memory. The table of owners is the whole truth: what is
//! free is what no one owns, so no kill can leave a count that is wrong.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::{Identity, Machine};
use crate::config::GRANULE;

/// How often an allocation that met another one midway tries again.
const TRIES: usize = 200;
/// So many counts in a row must find too little before an allocation gives up. One alone is of no
/// single instant: it misses what others give back behind it and take ahead of it.
const COUNTS: usize = 4;

impl Machine {
    /// Takes `count` granules for a process, or none at all.
    pub(crate) fn take(&self, gpu: usize, who: Identity, count: usize) -> Option<Box<[u32]>> {
        if count > self.granule_count(gpu) {
            return None;
        }
        for attempt in 0..TRIES {
            let taken = self.take_free(gpu, who, count);
            if taken.len() == count {
                self.take_over(gpu, who, &taken);
                return Some(taken.into());
            }
            self.give(gpu, who, &taken);
            if attempt == 0 {
                self.reap();
            }
            // Two that each hold half of what is left must not both fail.
            if self.lacks(gpu, count) {
                return None;
            }
        }
        None
    }

    fn lacks(&self, gpu: usize, count: usize) -> bool {
        (0..COUNTS).all(|_| {
            std::thread::yield_now();
            self.free_granules(gpu) < count
        })
    }

    /// Zeroes what others could write to, if the machine does that.
    fn take_over(&self, gpu: usize, who: Identity, granules: &[u32]) {
        let writers = self.writers(gpu);
        for index in granules {
            let before = writers[*index as usize].swap(who.tag, Relaxed);
            if self.config().scrub && before != 0 && before != who.tag {
                // SAFETY: the granule has GRANULE bytes and is the caller's since just now.
                unsafe { ptr::write_bytes(self.granule(gpu, *index), 0, GRANULE as usize) };
            }
        }
    }

    fn take_free(&self, gpu: usize, who: Identity, count: usize) -> Vec<u32> {
        let owners = self.owners(gpu);
        let hint = &self.words(gpu).hint;
        let start = hint.load(Relaxed) as usize % owners.len();
        let mut taken = Vec::with_capacity(count);
        for index in (start..owners.len()).chain(0..start) {
            if taken.len() == count {
                break;
            }
            let free = owners[index].load(Relaxed) == 0;
            if free
                && owners[index]
                    .compare_exchange(0, who.tag, AcqRel, Relaxed)
                    .is_ok()
            {
                taken.push(index as u32);
            }
        }
        if let Some(last) = taken.last() {
            hint.store(u64::from(*last) + 1, Relaxed);
        }
        taken
    }

    /// Gives granules back that [`Machine::take`] handed out.
    pub(crate) fn give(&self, gpu: usize, who: Identity, granules: &[u32]) {
        let owners = self.owners(gpu);
        for index in granules {
            let freed = owners[*index as usize].compare_exchange(who.tag, 0, AcqRel, Relaxed);
            debug_assert!(freed.is_ok(), "granule {index} was not ours");
        }
    }

    /// Gives back all granules with this tag.
    pub(super) fn free_all(&self, gpu: usize, tag: u64) {
        for owner in self.owners(gpu) {
            // Fails on what belongs to others, which is what it is for.
            let _ = owner.compare_exchange(tag, 0, AcqRel, Relaxed);
        }
    }

    /// How many granules each tag owns; tag 0 is nobody.
    pub(crate) fn granules_by_tag(&self, gpu: usize) -> HashMap<u64, usize> {
        let mut by_tag = HashMap::new();
        for owner in self.owners(gpu) {
            *by_tag.entry(owner.load(Acquire)).or_default() += 1;
        }
        by_tag
    }

    /// How many granules nobody owns.
    pub(crate) fn free_granules(&self, gpu: usize) -> usize {
        self.owners(gpu)
            .iter()
            .filter(|owner| owner.load(Acquire) == 0)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::tests::small;

    #[test]
    fn capacity_is_exact_and_all_or_nothing() {
        let (_dir, machine) = small(16);
        let me = machine.attach().unwrap();
        let most = machine.take(0, me, 6).unwrap();
        assert!(machine.take(0, me, 3).is_none());
        assert_eq!(machine.free_granules(0), 2);
        assert!(machine.take(0, me, 2).is_some());
        machine.give(0, me, &most);
        assert_eq!(machine.free_granules(0), 6);
        assert!(machine.take(0, me, usize::MAX).is_none());
    }

    #[test]
    fn racing_allocations_never_share_a_granule_nor_fail_in_vain() {
        let (_dir, machine) = small(64);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let me = machine.attach().unwrap();
                        for _ in 0..500 {
                            // Four of eight always fit into 32.
                            let mine = machine.take(0, me, 8).expect("there is room for all");
                            for index in &mine {
                                let byte = machine.granule(0, *index);
                                // SAFETY: the granule is this thread's own.
                                unsafe { byte.write(me.slot as u8) };
                            }
                            for index in &mine {
                                // SAFETY: the granule is this thread's own.
                                let byte = unsafe { machine.granule(0, *index).read() };
                                assert_eq!(byte, me.slot as u8);
                            }
                            machine.give(0, me, &mine);
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
        });
        assert_eq!(machine.free_granules(0), 32);
    }
}
