//! Scans /proc for processes that map a driver: all of them at the start, then young ones often and old
//! ones in turn, so that a scan costs the same however many processes there are; the owner that caused the
//! least work comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::libraries::{Mapped, ProcessId, candidates};
use super::turns::{Owner, Turns};
use crate::sys::{clock, peer};

/// A process is looked at after each of these times since it was first seen, and then in turn: most
/// programs load their libraries soon after the start, some at any later time.
const YOUNG: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(150),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(6),
];

/// Old processes looked at in one go: 25 a second, at about 60 µs each.
const IN_TURN: usize = 5;

/// Bytes of one process's maps that are read; of a longer text only the beginning counts.
const LONGEST: u64 = 4 << 20;

/// A living process: first seen at `since`, looked at `looks` times.
#[derive(Debug)]
struct Known {
    since: Instant,
    looks: usize,
}

/// The living processes by pid, and the order in which they are looked at.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    known: BTreeMap<u32, Known>,
    /// Processes to be looked at, by owner.
    due: BTreeMap<Owner, BTreeSet<u32>>,
    /// Pid of the old process that was looked at last.
    last: u32,
}

/// What one look found.
#[derive(Debug)]
pub(super) struct Seen {
    /// The process that was looked at.
    pub(super) process: ProcessId,
    /// When the look began, in ticks since boot.
    pub(super) at: u64,
    /// Its mappings of files that may be a driver's library.
    pub(super) mapped: Vec<Mapped>,
}

impl Scanner {
    /// Begins a scan of the processes that are due by now, or of `all`. Returns the pids of all living
    /// processes.
    pub(super) fn begin(&mut self, all: bool) -> BTreeSet<u32> {
        let now = Instant::now();
        let living = numbers();
        self.known.retain(|pid, _| living.contains(pid));
        for pids in self.due.values_mut() {
            pids.retain(|pid| living.contains(pid));
        }
        self.due.retain(|_, pids| !pids.is_empty());
        for &pid in &living {
            self.known.entry(pid).or_insert_with(|| Known::new(now));
        }
        let young = self.known.iter().filter_map(|(&pid, known)| {
            let next = YOUNG.get(known.looks)?;
            (all || now >= known.since + *next).then_some(pid)
        });
        let mut due: BTreeSet<u32> = young.collect();
        if all {
            due.extend(&living);
        } else {
            due.extend(self.in_turn());
        }
        for pid in due {
            self.look_again(pid);
        }
        living
    }

    /// The process to be looked at next, and its owner; none where nothing is due or all have to wait.
    pub(super) fn next(&mut self, turns: &Turns) -> Option<(u32, Owner)> {
        let ranked = self.due.keys().filter_map(|owner| {
            let rank = turns.rank(owner)?;
            Some((rank, owner))
        });
        let (_, owner) = ranked.min()?;
        let owner = owner.clone();
        let pids = self.due.get_mut(&owner)?;
        let pid = pids.pop_first();
        if pids.is_empty() {
            self.due.remove(&owner);
        }
        Some((pid?, owner))
    }

    /// Makes a process due. Its owner may have changed since the last look.
    pub(super) fn look_again(&mut self, pid: u32) {
        if let Some(owner) = Owner::of(pid) {
            self.due.entry(owner).or_default().insert(pid);
        }
    }

    /// Looks at one process, whether or not it is due.
    pub(super) fn look_now(&mut self, pid: u32) -> Option<Seen> {
        let seen = look_at(pid)?;
        let known = self.known.entry(pid);
        let known = known.or_insert_with(|| Known::new(Instant::now()));
        known.looks += 1;
        Some(seen)
    }

    /// Makes a process young again: it has executed another program.
    pub(super) fn mark_young(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Pids of the next [`IN_TURN`] old processes, in a circle.
    fn in_turn(&mut self) -> Vec<u32> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let until = (Bound::Unbounded, Bound::Included(self.last));
        let around = self.known.range(after).chain(self.known.range(until));
        let old = around.filter(|(_, known)| known.looks >= YOUNG.len());
        let next: Vec<_> = old.map(|(pid, _)| *pid).take(IN_TURN).collect();
        self.last = next.last().copied().unwrap_or(self.last);
        next
    }
}

impl Known {
    fn new(since: Instant) -> Self {
        Self { since, looks: 0 }
    }
}

/// Reads the maps of one process; none where it is gone, or may not be read.
fn look_at(pid: u32) -> Option<Seen> {
    let start_ticks = peer::start_ticks(pid)?;
    let at = clock::boot_ticks();
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/maps")).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(Seen {
        process: ProcessId { pid, start_ticks },
        at,
        mapped: candidates(&String::from_utf8_lossy(&text)),
    })
}

fn numbers() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at all that is due.
    fn look(scanner: &mut Scanner, all: bool) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let turns = Turns::new(Instant::now());
        let living = scanner.begin(all);
        let next = || Some(scanner.next(&turns)?.0);
        let due: Vec<_> = std::iter::from_fn(next).collect();
        let seen = due.into_iter().filter_map(|pid| scanner.look_now(pid));
        (seen.map(|seen| seen.process.pid).collect(), living)
    }

    #[test]
    fn everybody_is_seen_first_and_in_turn_later() {
        let mut scanner = Scanner::default();
        let (seen, living) = look(&mut scanner, true);
        let this = std::process::id();
        assert!(living.contains(&this));
        assert!(seen.contains(&this));
        for known in scanner.known.values_mut() {
            known.looks = YOUNG.len();
        }
        let mut looked = BTreeSet::new();
        for _ in 0..=living.len() / IN_TURN + 1 {
            looked.extend(look(&mut scanner, false).0);
        }
        assert!(looked.contains(&this));
        let process = scanner.look_now(this).unwrap().process;
        assert_eq!(Some(process.start_ticks), peer::start_ticks(this));
        assert!(scanner.look_now(u32::MAX).is_none());
    }

    #[test]
    fn who_comes_is_looked_at_soon_and_again() {
        let mut scanner = Scanner::default();
        look(&mut scanner, true);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let start = Instant::now();
        assert!(look(&mut scanner, false).0.contains(&pid), "at once");
        let again = look(&mut scanner, false).0.contains(&pid);
        assert!(!again || start.elapsed() >= YOUNG[1], "too soon");
        std::thread::sleep(YOUNG[1]);
        assert!(look(&mut scanner, false).0.contains(&pid), "and again");
        scanner.mark_young(pid);
        assert!(look(&mut scanner, false).0.contains(&pid), "young again");
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, living) = look(&mut scanner, false);
        assert!(!living.contains(&pid) && !scanner.known.contains_key(&pid));
    }

    #[test]
    fn the_owner_with_the_least_work_comes_first_and_one_without_a_share_waits() {
        let mut scanner = Scanner::default();
        let this = std::process::id();
        let own = Owner::of_user(4712);
        scanner.due.insert(own.clone(), BTreeSet::from([this]));
        let other = Owner::of_user(4711);
        scanner.due.insert(other.clone(), BTreeSet::from([1]));
        let mut turns = Turns::new(Instant::now());
        turns.charge(&own, Duration::from_millis(1));
        assert_eq!(scanner.next(&turns), Some((1, other)));
        turns.charge(&own, Duration::from_mins(1));
        assert_eq!(scanner.next(&turns), None);
        turns.pass(Instant::now() + Duration::from_hours(1));
        assert_eq!(scanner.next(&turns), Some((this, own)));
    }
}
