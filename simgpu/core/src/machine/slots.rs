//! Who is attached, who has died, and giving back what the dead held.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::layout::SLOTS;
use super::{Machine, Watch};
use crate::clock::now_ns;

/// A process's place in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Index of its slot.
    pub(crate) slot: usize,
    /// What marks its granules: unique for each time a slot is taken, so that
    /// a late reaper never frees what the slot's next process holds.
    pub(crate) tag: u64,
}

/// What a slot's `owner` word says: `[generation 32 | pid 30 | state 2]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    generation: u32,
    pub(crate) pid: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Taken, its words not written yet.
    Claimed,
    Live,
    /// Dead, its memory given back, its counters still readable.
    Dead,
}

impl Owner {
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.pid) << 2 | self.state as u64
    }

    fn unpack(word: u64) -> Self {
        let state = match word & 3 {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Live,
            _ => State::Dead,
        };
        Self {
            generation: (word >> 32) as u32,
            pid: (word as u32) >> 2,
            state,
        }
    }

    /// Whether the process still counts as attached (its memory is its own).
    pub(crate) fn is_live(self) -> bool {
        matches!(self.state, State::Claimed | State::Live)
    }

    /// What marks the granules of the process in `slot`.
    pub(crate) fn tag(self, slot: usize) -> u64 {
        u64::from(self.generation) << 32 | (slot as u64 + 1)
    }
}

impl Machine {
    /// Takes a slot for this process: a free one, or that of the process that
    /// has been dead longest. None if all of them live.
    pub(crate) fn attach(&self) -> Option<Identity> {
        // Zombies are left to whoever lacks memory: /proc takes long for hundreds of processes, each of
        // which joins.
        self.reap_by(|_, pid, _| exists(pid));
        if !(0..SLOTS).any(|slot| self.owner(slot).state == State::Free) {
            self.reap();
        }
        let pid = std::process::id();
        let start_ticks = process_status(pid).map_or(0, |status| status.start_ticks);
        let generation = self.header().next_generation.fetch_add(1, Relaxed) + 1;
        let mine = Owner {
            generation,
            pid,
            state: State::Claimed,
        };
        loop {
            let (slot, word) = self.best_slot()?;
            let words = self.slot(slot);
            if words
                .owner
                .compare_exchange(word, mine.pack(), AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            words.dead_at_ns.store(0, Relaxed);
            for gpu in 0..self.config.gpus.len() {
                self.counters(gpu, slot).clear();
                self.compute_meter(gpu, slot).clear();
            }
            words.start_ticks.store(start_ticks, Relaxed);
            words.owner.store(
                Owner {
                    state: State::Live,
                    ..mine
                }
                .pack(),
                Release,
            );
            return Some(Identity {
                slot,
                tag: mine.tag(slot),
            });
        }
    }

    fn owner(&self, slot: usize) -> Owner {
        Owner::unpack(self.slot(slot).owner.load(Acquire))
    }

    fn best_slot(&self) -> Option<(usize, u64)> {
        (0..SLOTS)
            .map(|slot| (slot, self.slot(slot).owner.load(Acquire)))
            .filter(|(_, word)| !Owner::unpack(*word).is_live())
            .min_by_key(|(slot, word)| match Owner::unpack(*word).state {
                State::Free => 0,
                _ => self.slot(*slot).dead_at_ns.load(Relaxed).max(1),
            })
    }

    /// Gives back the memory of processes that are dead for longer than the
    /// release lag, and shares that nobody holds. Anybody may do so at any time, also several at once.
    pub(crate) fn reap(&self) {
        self.reap_by(|_, pid, start_ticks| is_alive(pid, start_ticks));
    }

    /// The same, by somebody who does it again and again.
    pub(crate) fn reap_watched(&self, watch: &mut Watch) {
        watch.look();
        self.reap_by(|tag, pid, start_ticks| watch.is_alive(tag, pid, start_ticks));
    }

    fn reap_by(&self, mut is_alive: impl FnMut(u64, u32, u64) -> bool) {
        let lag_ns = (self.config.release_lag_ms * 1e6) as u64;
        for slot in 0..SLOTS {
            let words = self.slot(slot);
            let word = words.owner.load(Acquire);
            let owner = Owner::unpack(word);
            let start_ticks = match owner.state {
                State::Free | State::Dead => continue,
                // The word may still be that of the slot's last process.
                State::Claimed => 0,
                State::Live => words.start_ticks.load(Acquire),
            };
            if is_alive(owner.tag(slot), owner.pid, start_ticks) {
                continue;
            }
            let now = now_ns();
            let found = words.dead_at_ns.compare_exchange(0, now, AcqRel, Acquire);
            let dead_at = found.unwrap_or_else(|earlier| earlier);
            let dead_at = if dead_at == 0 { now } else { dead_at };
            if now < dead_at + lag_ns {
                continue;
            }
            for gpu in 0..self.config.gpus.len() {
                self.free_all(gpu, owner.tag(slot));
            }
            let dead = Owner {
                state: State::Dead,
                ..owner
            };
            // Whoever loses this race finds the work done by another reaper.
            if words
                .owner
                .compare_exchange(word, dead.pack(), AcqRel, Relaxed)
                .is_ok()
            {
                for gpu in 0..self.config.gpus.len() {
                    let counters = self.counters(gpu, slot);
                    counters.memory_bytes.store(0, Relaxed);
                    counters.context_bytes.store(0, Relaxed);
                    counters.shared_bytes.store(0, Relaxed);
                }
            }
        }
        self.reap_shares();
    }

    /// Whether the process in `slot` was found dead.
    pub(crate) fn was_found_dead(&self, slot: usize) -> bool {
        self.slot(slot).dead_at_ns.load(Acquire) != 0
    }

    /// All processes that have a slot, with their place in it.
    pub(crate) fn processes(&self) -> Vec<(usize, Owner)> {
        (0..SLOTS)
            .map(|slot| (slot, self.owner(slot)))
            .filter(|(_, owner)| owner.state != State::Free)
            .collect()
    }
}

pub(super) struct ProcessStatus {
    pub(super) start_ticks: u64,
    dead: bool,
}

/// What /proc/PID/stat says of a process (proc_pid_stat(5)).
pub(super) fn process_status(pid: u32) -> Option<ProcessStatus> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also blanks and brackets: fields count from its end.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    let start_ticks = fields.nth(1)?.parse().ok()?;
    // A zombie leader whose other threads run on is not dead yet.
    Some(ProcessStatus {
        start_ticks,
        dead: matches!(state, "Z" | "X") && threads <= 1,
    })
}

/// Whether there is a process with this pid, be it a zombie or another one.
fn exists(pid: u32) -> bool {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH))
}

/// Whether the process runs that started then; 0 is not known.
pub(super) fn is_alive(pid: u32, start_ticks: u64) -> bool {
    process_status(pid).is_some_and(|status| {
        !status.dead && (start_ticks == 0 || status.start_ticks == start_ticks)
    })
}

#[cfg(test)]
mod tests {
    use super::super::open::tests::small;
    use super::*;

    #[test]
    fn owner_words_read_back() {
        for state in [State::Free, State::Claimed, State::Live, State::Dead] {
            let owner = Owner {
                generation: u32::MAX,
                pid: (1 << 22) - 1,
                state,
            };
            assert_eq!(Owner::unpack(owner.pack()), owner);
        }
    }

    #[test]
    fn own_process_is_alive_and_a_later_start_is_another_process() {
        let pid = std::process::id();
        let start = process_status(pid).unwrap().start_ticks;
        assert!(is_alive(pid, start) && is_alive(pid, 0));
        assert!(!is_alive(pid, start + 1));
    }

    #[test]
    fn zombie_counts_as_dead() {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let start = process_status(child.id()).map_or(0, |status| status.start_ticks);
        let waited = std::time::Instant::now();
        while is_alive(child.id(), start) {
            assert!(waited.elapsed().as_secs() < 10, "the child does not end");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn dead_process_is_remembered_and_its_slot_reused_last() {
        let (_dir, machine) = small(8);
        let first = machine.attach().unwrap();
        machine.take(0, first, 3).unwrap();
        machine.counters(0, first.slot).h2d_bytes.store(5, Relaxed);
        // As if the process had been another one that is gone.
        machine.slot(first.slot).start_ticks.store(1, Relaxed);
        machine.reap();
        assert_eq!(machine.free_granules(0), 4);
        assert_eq!(machine.counters(0, first.slot).h2d_bytes.load(Relaxed), 5);
        let second = machine.attach().unwrap();
        assert_ne!(second.slot, first.slot);
        assert_ne!(second.tag, first.tag);
    }

    #[test]
    fn a_late_reaper_frees_nothing_of_the_next_process() {
        let (_dir, machine) = small(8);
        let old = machine.attach().unwrap();
        let word = machine.slot(old.slot).owner.load(Relaxed);
        let next = Owner {
            generation: 99,
            ..Owner::unpack(word)
        };
        let next = Identity {
            slot: old.slot,
            tag: next.tag(old.slot),
        };
        machine.take(0, next, 2).unwrap();
        machine.free_all(0, old.tag);
        assert_eq!(machine.free_granules(0), 2);
    }
}
