//! Bounds the processor time that the requests of best-effort sessions cost, for each owner. Each is small, but an
//! agent can make them faster than the daemon takes them.

use std::collections::{BTreeMap, VecDeque};

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

/// The owners of which sessions have made requests lately, and the connections that rang while theirs was paused.
#[derive(Debug, Default)]
pub struct Requests {
    accounts: BTreeMap<Owner, Account>,
    /// The connections that wait no longer, whatever their owners have used up.
    urgent: VecDeque<ConnectionId>,
}

#[derive(Debug)]
struct Account {
    allowance: Allowance,
    /// The connections that rang during a pause, in that order.
    waiting: VecDeque<ConnectionId>,
}

impl Account {
    fn is_paused(&self) -> bool {
        self.allowance.resumes().is_some()
    }

    /// Whether a ring waits: those that wait already come first.
    fn defers(&self) -> bool {
        self.is_paused() || !self.waiting.is_empty()
    }
}

impl Requests {
    /// Whether requests of `owner` wait now.
    pub fn is_paused(&self, owner: &Owner) -> bool {
        self.accounts.get(owner).is_some_and(Account::defers)
    }

    /// Defers a ring until [`Self::pop`] returns its `connection`, if requests of `owner` wait. Returns whether they
    /// do.
    pub fn defer_if_paused(&mut self, owner: &Owner, connection: ConnectionId) -> bool {
        let account = self.accounts.get_mut(owner);
        let Some(account) = account.filter(|account| account.defers()) else {
            return false;
        };
        account.waiting.push_back(connection);
        true
    }

    /// Ends the wait of `connection`, if it waits: [`Self::pop`] returns it before all others.
    pub fn hurry(&mut self, owner: &Owner, connection: ConnectionId) {
        let Some(account) = self.accounts.get_mut(owner) else {
            return;
        };
        let mut waiting = account.waiting.iter();
        if let Some(at) = waiting.position(|id| *id == connection) {
            account.waiting.remove(at);
            self.urgent.push_back(connection);
        }
    }

    /// Charges `work` for a request to `owner`.
    pub fn charge(&mut self, owner: &Owner, now: Time, work: Nanos) {
        if let Some(account) = self.accounts.get_mut(owner) {
            account.allowance.charge(now, work);
            return;
        }
        self.accounts
            .retain(|_, account| account.defers() || account.allowance.owed(now) > Nanos::ZERO);
        let mut allowance = Allowance::new(TERMS);
        allowance.charge(now, work);
        let waiting = VecDeque::new();
        let account = Account { allowance, waiting };
        self.accounts.insert(owner.clone(), account);
    }

    /// When [`Self::resume`] or [`Self::pop`] has something to do.
    pub fn resumes(&self) -> Option<Time> {
        if !self.urgent.is_empty() {
            return Some(Time::ZERO);
        }
        let each = self.accounts.values().filter_map(|account| {
            let is_due = !account.is_paused() && !account.waiting.is_empty();
            let due = is_due.then_some(Time::ZERO);
            due.or(account.allowance.resumes())
        });
        each.min()
    }

    /// Ends the pauses that are over by `now`.
    pub fn resume(&mut self, now: Time) {
        for account in self.accounts.values_mut() {
            account.allowance.resume(now);
        }
    }

    /// Takes out a connection that waits no longer. Of each owner the one that has waited longest comes first.
    pub fn pop(&mut self) -> Option<ConnectionId> {
        let accounts = self.accounts.values_mut();
        let mut waiting = accounts.filter(|account| !account.is_paused());
        let urgent = self.urgent.pop_front();
        urgent.or_else(|| waiting.find_map(|account| account.waiting.pop_front()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner::User(1);
    const OTHER: Owner = Owner::User(2);

    /// The work of one request.
    const WORK: Nanos = Nanos(10_000);

    const NOW: Time = Time(1_000_000_000);

    fn charge_until_paused(requests: &mut Requests, owner: &Owner, now: Time) -> usize {
        let charged = (0..1_000).take_while(|_| {
            let is_paused = requests.is_paused(owner);
            requests.charge(owner, now, WORK);
            !is_paused
        });
        charged.count()
    }

    #[test]
    fn an_owner_that_asks_without_end_waits_and_no_other_does() {
        let mut requests = Requests::default();
        assert_eq!(charge_until_paused(&mut requests, &ONE, NOW), 501);
        requests.charge(&OTHER, NOW, WORK);
        for id in [7, 8] {
            assert!(requests.defer_if_paused(&ONE, ConnectionId(id)));
        }
        assert!(!requests.defer_if_paused(&OTHER, ConnectionId(9)));
        let resumes = requests.resumes().unwrap();
        requests.resume(NOW);
        assert_eq!(requests.pop(), None);
        assert!(
            resumes - NOW < Nanos(3_000_000),
            "{resumes:?} is a short pause"
        );
        requests.resume(resumes);
        assert_eq!(requests.resumes(), Some(Time::ZERO), "two are due");
        let all = [requests.pop(), requests.pop()];
        assert_eq!(all, [7, 8].map(|id| Some(ConnectionId(id))));
        assert_eq!((requests.pop(), requests.resumes()), (None, None));
        assert!(!requests.defer_if_paused(&ONE, ConnectionId(7)));
    }

    #[test]
    fn each_connection_has_its_turn_however_many_there_are() {
        const CONNECTIONS: u64 = 512;
        let mut requests = Requests::default();
        charge_until_paused(&mut requests, &ONE, NOW);
        for id in 1..=CONNECTIONS {
            assert!(requests.defer_if_paused(&ONE, ConnectionId(id)));
        }
        let mut heard = Vec::new();
        while heard.len() < 2 * CONNECTIONS as usize {
            let now = requests.resumes().expect("more wait");
            requests.resume(now);
            // All that were heard ring again at once.
            let mut ringing = Vec::new();
            while let Some(id) = requests.pop() {
                requests.charge(&ONE, now, WORK);
                ringing.push(id);
            }
            assert!((1..50).contains(&ringing.len()), "{}", ringing.len());
            for id in &ringing {
                assert!(requests.defer_if_paused(&ONE, *id));
            }
            heard.append(&mut ringing);
        }
        let turns = (1..=CONNECTIONS).chain(1..=CONNECTIONS).map(ConnectionId);
        let are_in_order = heard.into_iter().zip(turns).all(|(id, turn)| id == turn);
        assert!(are_in_order);
    }

    #[test]
    fn a_connection_that_is_told_to_do_something_waits_no_longer() {
        let mut requests = Requests::default();
        charge_until_paused(&mut requests, &ONE, NOW);
        for id in [7, 8, 9] {
            assert!(requests.defer_if_paused(&ONE, ConnectionId(id)));
        }
        requests.hurry(&ONE, ConnectionId(8));
        requests.hurry(&ONE, ConnectionId(5));
        requests.hurry(&OTHER, ConnectionId(9));
        assert_eq!(requests.resumes(), Some(Time::ZERO));
        assert_eq!(requests.pop(), Some(ConnectionId(8)));
        assert_eq!(requests.pop(), None, "the pause goes on");
        let resumes = requests.resumes().unwrap();
        requests.resume(resumes);
        let rest = [requests.pop(), requests.pop(), requests.pop()];
        assert_eq!(rest, [Some(ConnectionId(7)), Some(ConnectionId(9)), None]);
    }

    #[test]
    fn owners_are_forgotten_once_all_is_paid() {
        let mut requests = Requests::default();
        for user in 0..100 {
            let now = Time(1_000_000_000 + u64::from(user) * 1_000_000_000);
            requests.charge(&Owner::User(user), now, WORK);
        }
        assert_eq!(requests.accounts.len(), 1);
    }
}
