//! Scans /proc for processes that map a driver: all of them at the start, then young ones often and old
//! ones in turn, so that a scan costs the same however many processes there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::libraries::{Mapped, ProcessId, candidates};
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
    /// Looks at the processes that are due, or at `all`. Returns what was found, and the pids of all
    /// living processes.
    pub(super) fn look(&mut self, all: bool) -> (Vec<Seen>, BTreeSet<u32>) {
        let now = Instant::now();
        let living = numbers();
        self.known.retain(|pid, _| living.contains(pid));
        for &pid in &living {
            self.known.entry(pid).or_insert(Known {
                since: now,
                looks: 0,
            });
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
        let seen = due.into_iter().filter_map(|pid| {
            if let Some(known) = self.known.get_mut(&pid) {
                known.looks += 1;
            }
            look_at(pid)
        });
        (seen.collect(), living)
    }

    /// Looks at one process, whether or not it is due.
    pub(super) fn look_now(&mut self, pid: u32) -> Option<Seen> {
        let seen = look_at(pid)?;
        let known = self.known.entry(pid).or_insert(Known {
            since: Instant::now(),
            looks: 0,
        });
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

    #[test]
    fn everybody_is_seen_first_and_in_turn_later() {
        let mut scanner = Scanner::default();
        let (seen, living) = scanner.look(true);
        let this = std::process::id();
        assert!(living.contains(&this));
        assert!(seen.iter().any(|seen| seen.process.pid == this));
        for known in scanner.known.values_mut() {
            known.looks = YOUNG.len();
        }
        let mut looked = BTreeSet::new();
        for _ in 0..=living.len() / IN_TURN + 1 {
            let (seen, _) = scanner.look(false);
            looked.extend(seen.iter().map(|seen| seen.process.pid));
        }
        assert!(looked.contains(&this));
        let process = scanner.look_now(this).unwrap().process;
        assert_eq!(Some(process.start_ticks), peer::start_ticks(this));
        assert!(scanner.look_now(u32::MAX).is_none());
    }

    #[test]
    fn who_comes_is_looked_at_soon_and_again() {
        let mut scanner = Scanner::default();
        scanner.look(true);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let is_seen = |seen: &[Seen]| seen.iter().any(|seen| seen.process.pid == pid);
        let start = Instant::now();
        assert!(is_seen(&scanner.look(false).0), "at once");
        let again = is_seen(&scanner.look(false).0);
        assert!(!again || start.elapsed() >= YOUNG[1], "too soon");
        std::thread::sleep(YOUNG[1]);
        assert!(is_seen(&scanner.look(false).0), "and again");
        scanner.mark_young(pid);
        assert!(is_seen(&scanner.look(false).0), "young again");
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, living) = scanner.look(false);
        assert!(!living.contains(&pid) && !scanner.known.contains_key(&pid));
    }
}
