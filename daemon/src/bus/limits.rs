//! Limits on one user's share of the control side, so that no user can shut out the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rtswap_engine::owners::Subordinates;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one user at a time.
const CONNECTIONS: usize = 64;

/// Calls of one user that change something: the most at once.
const BURST: u32 = 64;

/// The time after which that user may make one more of them.
const REFILL: Duration = Duration::from_millis(20);

/// Questions to polkit that wait for one user at a time.
const QUESTIONS: usize = 8;

/// Long answers that are made for one user at a time; more of them wait for these. The control
/// side has two threads, so one is left to the others.
const ANSWERS: usize = 1;

/// The most users with remembered shares; beyond it, shares of which nothing is taken are forgotten.
const USERS: usize = 256;

/// The share that each user has taken. Root is not limited: it must get in to set things right.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    shares: Arc<Mutex<BTreeMap<u32, Share>>>,
    /// The ids of which one user may have many.
    subordinates: Arc<Subordinates>,
}

#[derive(Debug)]
struct Share {
    connections: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    calls: u32,
    refilled: Instant,
}

impl Share {
    fn new(uid: u32) -> Self {
        let places = |most| {
            let most = if uid == 0 {
                Semaphore::MAX_PERMITS
            } else {
                most
            };
            Arc::new(Semaphore::new(most))
        };
        Self {
            connections: places(CONNECTIONS),
            questions: places(QUESTIONS),
            answers: places(ANSWERS),
            calls: BURST,
            refilled: Instant::now(),
        }
    }

    /// Whether nothing of the share is taken at `now`: forgotten, it would come back the same.
    fn is_whole(&self, now: Instant) -> bool {
        let rested = now.saturating_duration_since(self.refilled) > BURST * REFILL;
        let mut places = [&self.connections, &self.questions, &self.answers].into_iter();
        // A place that is taken or waited for refers to its semaphore.
        rested && places.all(|places| Arc::strong_count(places) == 1)
    }
}

impl Limits {
    /// Shares of users, with those of their subordinate ids.
    pub(super) fn new(subordinates: Subordinates) -> Self {
        Self {
            subordinates: Arc::new(subordinates),
            ..Self::default()
        }
    }

    /// A place for one more connection of `uid`, if it may have one; given back when dropped.
    pub(super) fn connect(&self, uid: u32) -> Option<OwnedSemaphorePermit> {
        let connections = self.share(uid, |share| Arc::clone(&share.connections));
        connections.try_acquire_owned().ok()
    }

    /// The same for one more question about `uid` that waits for an answer.
    pub(super) fn ask(&self, uid: u32) -> Option<OwnedSemaphorePermit> {
        let questions = self.share(uid, |share| Arc::clone(&share.questions));
        questions.try_acquire_owned().ok()
    }

    /// Whether `uid` may make one more call at `now` that changes something.
    pub(super) fn call(&self, uid: u32, now: Instant) -> bool {
        if uid == 0 {
            return true;
        }
        let mut shares = self.lock();
        if shares.len() > USERS {
            shares.retain(|_, share| !share.is_whole(now));
        }
        drop(shares);
        self.share(uid, |share| {
            let since = now.saturating_duration_since(share.refilled);
            let fresh = u32::try_from(since.as_nanos() / REFILL.as_nanos()).unwrap_or(BURST);
            if fresh > 0 {
                share.calls = share.calls.saturating_add(fresh).min(BURST);
                share.refilled = now;
            }
            let left = share.calls.checked_sub(1);
            share.calls = left.unwrap_or_default();
            left.is_some()
        })
    }

    /// Waits until one more long answer may be made for `uid`. The others' go on meanwhile.
    pub(super) async fn turn(&self, uid: u32) -> Option<OwnedSemaphorePermit> {
        if uid == 0 {
            return None;
        }
        let answers = self.share(uid, |share| Arc::clone(&share.answers));
        let turn = answers.acquire_owned().await.ok();
        // Other tasks that are ready run first.
        tokio::task::yield_now().await;
        turn
    }

    fn share<T>(&self, uid: u32, act: impl FnOnce(&mut Share) -> T) -> T {
        let user = self.subordinates.user(uid);
        act(self.lock().entry(user).or_insert_with(|| Share::new(user)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Share>> {
        // The counts are consistent at any time, so a poisoned lock is no harm.
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_its_share_and_no_more() {
        let limits = Limits::default();
        let slots: Vec<_> = (0..100).filter_map(|_| limits.connect(5)).collect();
        assert_eq!(slots.len(), CONNECTIONS);
        assert!(limits.connect(6).is_some());
        assert_eq!((0..100).filter_map(|_| limits.connect(0)).count(), 100);
        drop(slots);
        assert!(limits.connect(5).is_some());
    }

    #[test]
    fn calls_come_back_with_time() {
        let limits = Limits::default();
        let _slot = limits.connect(5);
        let start = Instant::now() + Duration::from_secs(10);
        let calls = |at| (0..1000).filter(|_| limits.call(5, at)).count();
        assert_eq!(calls(start), BURST as usize);
        assert_eq!(calls(start), 0);
        assert_eq!(calls(start + 3 * REFILL), 3);
        assert_eq!(calls(start + 1000 * REFILL), BURST as usize);
    }

    #[test]
    fn leaving_and_coming_back_gives_no_calls() {
        let limits = Limits::default();
        drop(limits.connect(5));
        let now = Instant::now();
        while limits.call(5, now) {}
        drop(limits.connect(5));
        let _slot = limits.connect(5);
        assert!(!limits.call(5, now));
    }

    #[test]
    fn questions_are_few_and_shares_of_the_idle_forgotten() {
        let limits = Limits::default();
        let asked: Vec<_> = (0..20).filter_map(|_| limits.ask(5)).collect();
        assert_eq!(asked.len(), QUESTIONS);
        assert!(limits.ask(6).is_some());
        let soon = Instant::now();
        for uid in 10..1000 {
            limits.call(uid, soon);
        }
        limits.call(7, soon + Duration::from_secs(10));
        assert_eq!(
            limits.lock().len(),
            2,
            "a user that waits for an answer, and one that calls"
        );
    }
}
