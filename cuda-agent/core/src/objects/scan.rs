//! Which objects a scan still has to look at.
//!
//! The loader appends to its list and counts, for good, how many objects it added and removed. Those
//! counts are the only reliable key: a new object may reuse the address, and even the link map, of one
//! that was closed, and a close followed by a load leaves the length of the list as it was.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The state of the loader's list at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Objects ever added, in all namespaces.
    adds: u64,
    /// Objects ever removed, in all namespaces. glibc 2.28 to 2.36 miscount this while there is more
    /// than one namespace.
    subs: u64,
    /// Objects listed in our namespace.
    count: usize,
}

impl Snapshot {
    /// Adds one listed object, with the counts that the loader reports for it.
    pub(super) fn add(&mut self, info: &libc::dl_phdr_info) {
        (self.adds, self.subs) = (info.dlpi_adds, info.dlpi_subs);
        self.count += 1;
    }

    /// Whether the list is still this one. Exact with several namespaces, too: as long as nothing is
    /// added, each removal increases `subs`.
    pub(super) fn is_current(&self, info: &libc::dl_phdr_info) -> bool {
        (self.adds, self.subs) == (info.dlpi_adds, info.dlpi_subs)
    }

    /// The number of objects at the head of the `later` list that this list already had. Zero as soon as
    /// anything was removed, because the loader does not say what.
    fn common_prefix(self, later: Self) -> usize {
        let has_one_namespace = |it: Self| it.adds.wrapping_sub(it.subs) == it.count as u64;
        if has_one_namespace(self) && has_one_namespace(later) && self.subs == later.subs {
            self.count
        } else {
            0
        }
    }
}

/// The list that was scanned last. Used only while the loader's list is locked, which keeps the three
/// numbers consistent; a lock of our own could stay locked in the child of a fork.
pub(super) struct Scanned {
    adds: AtomicU64,
    subs: AtomicU64,
    count: AtomicUsize,
}

impl Scanned {
    pub(super) const fn nothing() -> Self {
        Self {
            adds: AtomicU64::new(0),
            subs: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Records that the whole `list` is scanned by the time it is unlocked. Returns how many objects at
    /// its head need no scan, because an earlier one had them.
    pub(super) fn advance(&self, list: Snapshot) -> usize {
        let earlier = Snapshot {
            adds: self.adds.swap(list.adds, Ordering::Relaxed),
            subs: self.subs.swap(list.subs, Ordering::Relaxed),
            count: self.count.swap(list.count, Ordering::Relaxed),
        };
        earlier.common_prefix(list)
    }
}

/// The latest list that needs no further scan.
pub(super) struct Settled(AtomicU64);

/// Set in the key of a list whose scan was declined.
const DECLINED: u64 = 1 << 63;

impl Settled {
    pub(super) const fn never() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether the list that `info` belongs to needs no scan. If its scan was declined, that holds until
    /// `is_wanted`.
    pub(super) fn covers(&self, info: &libc::dl_phdr_info, is_wanted: impl Fn() -> bool) -> bool {
        let current = key(info.dlpi_adds, info.dlpi_subs);
        let settled = self.0.load(Ordering::Acquire);
        settled == current || settled == current ^ DECLINED && !is_wanted()
    }

    /// Records that `list` is scanned, or that its scan was declined. Overwriting a later list only costs
    /// one scan that finds nothing to do.
    pub(super) fn record(&self, list: Snapshot, is_declined: bool) {
        let declined = if is_declined { DECLINED } else { 0 };
        let key = key(list.adds, list.subs) ^ declined;
        self.0.store(key, Ordering::Release);
    }
}

/// Both counts in one word.
fn key(adds: u64, subs: u64) -> u64 {
    (adds << 32) ^ subs
}

/// How many threads can hold a guard at a time; more of them scan unguarded.
const GUARDS: usize = 64;

/// The kernel's numbers of the threads that scan now. Not a thread-local: its first use may make the
/// loader allocate, which is what the guard is for.
static SCANNING: [AtomicU32; GUARDS] = [const { AtomicU32::new(0) }; GUARDS];

/// Keeps a thread from scanning within its own scan: the loader's functions may allocate, and the
/// program's allocator may look up a symbol at every call. It never keeps out other threads. A
/// thread must not use a library before its slots are rebound, and could not wait for another
/// thread's scan either: that one may need the loader's lock, which this one may hold.
pub(super) struct ScanGuard(Option<&'static AtomicU32>);

impl ScanGuard {
    /// A guard, or none within a scan of this thread.
    pub(super) fn enter() -> Option<Self> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let thread = thread.cast_unsigned();
        if SCANNING
            .iter()
            .any(|slot| slot.load(Ordering::Relaxed) == thread)
        {
            return None;
        }
        let free = SCANNING.iter().find(|slot| {
            slot.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        Some(Self(free))
    }
}

impl Drop for ScanGuard {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn list(adds: u64, subs: u64, count: usize) -> Snapshot {
        Snapshot { adds, subs, count }
    }

    fn info(adds: u64, subs: u64) -> libc::dl_phdr_info {
        // SAFETY: zeros are valid for numbers and pointers.
        let mut info: libc::dl_phdr_info = unsafe { core::mem::zeroed() };
        (info.dlpi_adds, info.dlpi_subs) = (adds, subs);
        info
    }

    #[test]
    fn only_new_objects_are_scanned_until_one_is_closed() {
        let scanned = Scanned::nothing();
        assert_eq!(scanned.advance(list(9, 0, 9)), 0, "the first scan");
        assert_eq!(scanned.advance(list(9, 0, 9)), 9);
        assert_eq!(scanned.advance(list(12, 0, 12)), 9);
        // As long as before, but one object was closed and another loaded.
        assert_eq!(scanned.advance(list(13, 1, 12)), 0);
        assert_eq!(scanned.advance(list(13, 2, 11)), 0);
        assert_eq!(scanned.advance(list(14, 2, 12)), 11);
    }

    #[test]
    fn counts_of_several_namespaces_are_not_trusted() {
        let scanned = Scanned::nothing();
        scanned.advance(list(9, 0, 9));
        // Two objects in another namespace count as four.
        let subs = |nloaded: u64, adds: u64| adds.wrapping_sub(nloaded);
        assert_eq!(scanned.advance(list(11, subs(9 + 4, 11), 9)), 0);
        assert_eq!(scanned.advance(list(12, subs(10 + 4, 12), 10)), 0);
        // The other namespace is gone.
        assert_eq!(scanned.advance(list(12, 2, 10)), 0);
        assert_eq!(scanned.advance(list(13, 2, 11)), 10);
    }

    #[test]
    fn a_list_is_settled_until_it_changes_or_a_declined_scan_is_wanted() {
        let settled = Settled::never();
        let (wanted, unwanted) = (|| true, || false);
        assert!(!settled.covers(&info(4, 0), unwanted));
        let mut now = Snapshot::default();
        now.add(&info(5, 1));
        assert!(now.is_current(&info(5, 1)) && !now.is_current(&info(5, 2)));
        settled.record(now, false);
        assert!(settled.covers(&info(5, 1), wanted));
        assert!(!settled.covers(&info(6, 2), unwanted));
        settled.record(now, true);
        assert!(settled.covers(&info(5, 1), unwanted));
        assert!(!settled.covers(&info(5, 1), wanted));
        assert!(!settled.covers(&info(6, 1), unwanted));
    }

    #[test]
    fn a_guard_keeps_out_its_own_thread_only() {
        let all = std::sync::Barrier::new(GUARDS + 8);
        std::thread::scope(|scope| {
            for _ in 0..GUARDS + 8 {
                scope.spawn(|| {
                    let guard = ScanGuard::enter();
                    let has_entered = guard.is_some();
                    let has_slot = guard.as_ref().is_some_and(|guard| guard.0.is_some());
                    let enters_again = ScanGuard::enter().is_some();
                    all.wait();
                    drop(guard);
                    assert!(has_entered && enters_again != has_slot);
                    assert!(ScanGuard::enter().is_some());
                });
            }
        });
    }
}
