//! Bounds the processor time that the requests of best-effort sessions cost, for each owner. Each is small, but an
//! agent can make them faster than the daemon takes them.

use std::collections::BTreeMap;

use rtswap_engine::ConnectionId;
use rtswap_engine::owners::Owner;
use rtswap_policy::units::{Nanos, Time};

use super::allowance::{Allowance, Terms};

/// A tenth of one processor is thousands of jobs a second. The pauses are short, because a request may be the
/// end of a job or of a swap, for which others wait.
const TERMS: Terms = Terms {
    burst: Nanos(5_000_000),
    share: 10,
    next: Nanos(250_000),
};

/// The owners whose sessions have made requests lately.
#[derive(Debug, Default)]
pub struct Requests(BTreeMap<Owner, Account>);

#[derive(Debug)]
struct Account {
    allowance: Allowance,
    /// The connections that rang during a pause.
    waiting: Vec<ConnectionId>,
}

impl Requests {
    /// Whether the requests of `owner` wait. Then `connection` is one of those that [`Self::resume`] returns.
    pub fn wait(&mut self, owner: &Owner, connection: ConnectionId) -> bool {
        let Some(account) = self.0.get_mut(owner) else {
            return false;
        };
        let waits = account.allowance.resumes().is_some();
        if waits {
            account.waiting.push(connection);
        }
        waits
    }

    /// Charges `work` for a request to `owner`.
    pub fn charge(&mut self, owner: &Owner, now: Time, work: Nanos) {
        if !self.0.contains_key(owner) {
            self.0.retain(|_, account| {
                account.allowance.resumes().is_some() || account.allowance.owed(now) > Nanos::ZERO
            });
        }
        let account = self.0.entry(owner.clone()).or_insert_with(|| Account {
            allowance: Allowance::new(TERMS),
            waiting: Vec::new(),
        });
        account.allowance.charge(now, work);
    }

    /// When the next pause ends.
    pub fn resumes(&self) -> Option<Time> {
        let accounts = self.0.values();
        accounts.filter_map(|it| it.allowance.resumes()).min()
    }

    /// Ends the pauses that are over by `now`. Returns the connections that rang meanwhile.
    pub fn resume(&mut self, now: Time) -> Vec<ConnectionId> {
        let accounts = self.0.values_mut();
        let over = accounts.filter_map(|account| {
            let is_over = account.allowance.resume(now);
            is_over.then(|| std::mem::take(&mut account.waiting))
        });
        over.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner::User(1);
    const OTHER: Owner = Owner::User(2);

    #[test]
    fn who_asks_without_end_waits_and_nobody_else() {
        let mut requests = Requests::default();
        let now = Time(1_000_000_000);
        let asked = (0..1_000).take_while(|_| {
            requests.charge(&ONE, now, Nanos(10_000));
            !requests.wait(&ONE, ConnectionId(7))
        });
        assert_eq!(asked.count(), 500, "a burst");
        assert!(requests.wait(&ONE, ConnectionId(8)));
        assert!(!requests.wait(&OTHER, ConnectionId(9)));
        requests.charge(&OTHER, now, Nanos(10_000));
        assert!(!requests.wait(&OTHER, ConnectionId(9)));
        let resumes = requests.resumes().unwrap();
        assert_eq!(requests.resume(now), []);
        assert!(
            resumes - now < Nanos(3_000_000),
            "{resumes:?} is a short pause"
        );
        assert_eq!(requests.resume(resumes), [ConnectionId(7), ConnectionId(8)]);
        assert_eq!(requests.resumes(), None);
        assert!(!requests.wait(&ONE, ConnectionId(7)));
    }

    #[test]
    fn owners_are_forgotten_once_all_is_paid() {
        let mut requests = Requests::default();
        for user in 0..100 {
            let now = Time(1_000_000_000 + u64::from(user) * 1_000_000_000);
            requests.charge(&Owner::User(user), now, Nanos(10_000));
        }
        assert_eq!(requests.0.len(), 1);
    }
}
