//! The order in which processes and their files are looked at. A user chooses how long the text of a process's
//! mappings is and how long files take to read, so each owner has a share of the probes' thread. An owner that
//! used its share up waits, and no other waits for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::origin;
use crate::sys::namespace::accountable_user;

/// The work that an owner may cause at once.
const BURST: Duration = Duration::from_secs(1);

/// After that an owner may cause work for this part of the time, 3 s a minute.
const SHARE: u32 = 20;

/// The account to which the work for a process is charged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    user: u32,
    /// The container or unit of root's processes, which are not one owner: root inside containers is a stranger.
    unit: Option<String>,
}

impl Owner {
    /// The owner of a process; none once it is gone.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let user = accountable_user(pid)?;
        let unit = (user == 0).then(|| origin::of_process(pid)).flatten();
        Some(Self { user, unit })
    }

    /// A user, whatever the process.
    #[cfg(test)]
    pub(super) fn of_user(user: u32) -> Self {
        Self { user, unit: None }
    }

    /// The machine's own root, in no container or unit.
    pub(super) fn machine() -> Self {
        Self {
            user: 0,
            unit: None,
        }
    }
}

/// The work done for each owner and not yet paid off by the time since.
#[derive(Debug)]
pub(super) struct Turns {
    spent: BTreeMap<Owner, Duration>,
    last: Instant,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            spent: BTreeMap::new(),
            last: now,
        }
    }

    /// Pays off what the time since the last call allows.
    pub(super) fn pass(&mut self, now: Instant) {
        let paid = now.saturating_duration_since(self.last) / SHARE;
        self.last = now;
        self.spent.retain(|_, spent| {
            *spent = spent.saturating_sub(paid);
            !spent.is_zero()
        });
    }

    /// What is not paid off; none where the owner has to wait.
    pub(super) fn rank(&self, owner: &Owner) -> Option<Duration> {
        let spent = self.spent.get(owner).copied().unwrap_or_default();
        (spent < BURST).then_some(spent)
    }

    /// Charges work to its owner. Root on the machine itself is not limited.
    pub(super) fn charge(&mut self, owner: &Owner, work: Duration) {
        if *owner == Owner::machine() {
            return;
        }
        *self.spent.entry(owner.clone()).or_default() += work;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_spent_its_share_waits_alone() {
        let (flooder, other) = (Owner::of_user(8), Owner::of_user(7));
        let start = Instant::now();
        let mut turns = Turns::new(start);
        let mut done = Duration::ZERO;
        for ms in 0..60_000 {
            turns.pass(start + Duration::from_millis(ms));
            if turns.rank(&flooder).is_some() {
                turns.charge(&flooder, Duration::from_millis(30));
                done += Duration::from_millis(30);
            }
            assert_eq!(turns.rank(&other), Some(Duration::ZERO));
        }
        let most = BURST + Duration::from_mins(1) / SHARE + Duration::from_millis(30);
        assert!(done > most / 2 && done <= most, "{done:?}");
        turns.pass(start + Duration::from_mins(2));
        assert_eq!(turns.rank(&flooder), Some(Duration::ZERO));
    }
}
