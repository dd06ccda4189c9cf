//! The agents' connections, by number, and the work that is due for them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::OwnedFd;

use rtswap_engine::ConnectionId;
use rtswap_engine::owners::Subordinates;
use rtswap_policy::units::{Nanos, Time};

use crate::agent::allowance::{Allowance, Terms};
use crate::agent::bells::Bells;
use crate::agent::connection::{Blank, Connection};
use crate::agent::listener::{Listener, Pending};
use crate::agent::requests::Requests;
use crate::sys::poll::Poll;

/// Each page is read at least this often, because a doorbell may be lost. With hundreds of processes
/// these sweeps are most of what an idle daemon does.
const SWEEP: Nanos = Nanos(250_000_000);

/// Connections that are swept before others have their turn.
const SWEPT_AT_ONCE: usize = 64;

/// For connections that have no session: hundreds of programs that start together need less than the burst, and
/// all that follows gets a tenth of one processor.
const WITHOUT_SESSION: Terms = Terms {
    burst: Nanos(20_000_000),
    share: 10,
    next: Nanos(1_000_000),
};

/// The dispatch thread's agents: connections, doorbells to repeat, the sweep of their pages.
#[derive(Debug)]
pub(super) struct Agents {
    pub(super) listener: Listener,
    /// For what connects and has no session.
    pub(super) allowance: Allowance,
    /// For what best-effort sessions ask for.
    pub(super) requests: Requests,
    /// The connections with an order that has a bound and may have no answer yet.
    pub(super) awaiting: Vec<ConnectionId>,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// The connection that sent the Hello which the engine has and has not answered.
    pub(super) greeting: Option<Greeting>,
    /// What the next session gets with its Welcome; none if it could not be made.
    blank: Option<Blank>,
    pub(super) bells: Bells,
    /// Connections with a process that the engine asked to inspect.
    pub(super) inspections: Vec<ConnectionId>,
    /// Hellos that may still be taken in this wake-up. Each costs a look at /proc as long as its sender
    /// has made that, and grants wait meanwhile.
    pub(super) hellos_left: u32,
    /// The epoch written into the pages: differs from that of any other run in this boot.
    pub(super) epoch: u64,
    sweep: Sweep,
    next: u64,
}

/// A connection that has said Hello.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) id: ConnectionId,
    pub(super) pending: Pending,
    /// A pidfd of its swap thread, where the kernel has such.
    pub(super) thread: Option<OwnedFd>,
    /// The swap thread's id in the agent's own PID namespace.
    pub(super) tid: u32,
    /// What the agent can do beyond its version.
    pub(super) features: u64,
}

/// The progress of the safety sweep of all pages.
#[derive(Debug, Default)]
struct Sweep {
    /// When the next slice is due.
    due: Time,
    /// The start of the sweep under way, and the last connection of its latest slice.
    under_way: Option<(Time, ConnectionId)>,
}

impl Agents {
    /// No connections yet; they will come in by `listener`. `now` becomes the epoch.
    pub(super) fn new(listener: OwnedFd, subordinates: Subordinates, now: Time) -> Self {
        Self {
            listener: Listener::new(listener, subordinates),
            allowance: Allowance::new(WITHOUT_SESSION),
            requests: Requests::default(),
            awaiting: Vec::new(),
            connections: BTreeMap::new(),
            greeting: None,
            bells: Bells::default(),
            inspections: Vec::new(),
            hellos_left: 0,
            blank: None,
            epoch: now.0,
            sweep: Sweep::default(),
            next: 1,
        }
    }

    /// The number that the next connection gets.
    pub(super) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next)
    }

    /// Takes that number.
    pub(super) fn take_id(&mut self) -> ConnectionId {
        let id = self.next_id();
        self.next += 1;
        id
    }

    /// Takes the spare page and eventfd, or makes them.
    pub(super) fn take_blank(&mut self) -> rustix::io::Result<Blank> {
        self.blank.take().map_or_else(Blank::new, Ok)
    }

    /// Makes a spare page and eventfd, unless there are. Why that fails is told when a session needs them.
    pub(super) fn prepare_blank(&mut self) {
        if self.blank.is_none() {
            self.blank = Blank::new().ok();
        }
    }

    /// Some of the connections with a process that has ended by now; none once all were returned. `poll`
    /// does not watch these processes any more.
    pub(super) fn take_ended(&self, poll: &Poll) -> rustix::io::Result<Vec<ConnectionId>> {
        let mut ended = Vec::new();
        for id in poll.ended()?.into_iter().map(ConnectionId) {
            // A number without a connection would come back for ever: there is no pidfd to remove.
            if let Some(connection) = self.connections.get(&id) {
                poll.remove_process(connection.process());
                ended.push(id);
            }
        }
        Ok(ended)
    }

    /// The next time that something is due: a doorbell, a slice of the sweep, the end of a pause, or of the time in
    /// which a pending connection must send its Hello.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let sweep = (!self.connections.is_empty()).then_some(self.sweep.due);
        let all = [
            sweep,
            self.bells.next(),
            self.listener.next_expiry(),
            self.allowance.resumes(),
            self.requests.resumes(),
        ];
        all.into_iter().flatten().min()
    }

    /// Rings again the doorbells that are due and have not been answered.
    pub(super) fn ring_again(&mut self, now: Time) {
        while let Some((at, id, gpu)) = self.bells.pop(now) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.ring_again(gpu, at, now, &mut self.bells);
            }
        }
    }

    /// The connections of the next slice of the sweep, if that is due. The slices of one sweep follow
    /// each other at once, with the turns of others between them.
    pub(super) fn next_slice(&mut self, now: Time) -> Vec<ConnectionId> {
        if now < self.sweep.due {
            return Vec::new();
        }
        let (began, after) = match self.sweep.under_way {
            Some((began, last)) => (began, Bound::Excluded(last)),
            None => (now, Bound::Unbounded),
        };
        let rest = self.connections.range((after, Bound::Unbounded));
        let slice: Vec<_> = rest.take(SWEPT_AT_ONCE).map(|(id, _)| *id).collect();
        let is_last = slice.len() < SWEPT_AT_ONCE;
        self.sweep = match slice.last() {
            Some(last) if !is_last => Sweep {
                due: now,
                under_way: Some((began, *last)),
            },
            _ => Sweep {
                due: (began + SWEEP).max(now),
                under_way: None,
            },
        };
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::peer::open_process;

    #[test]
    fn an_end_without_a_connection_is_no_end_to_take() {
        let (socket, _) = rustix::pipe::pipe().unwrap();
        let mut agents = Agents::new(socket, Subordinates::default(), Time(0));
        let poll = Poll::new().unwrap();
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("true is there");
        let known = agents.take_id();
        let processes = [0; 2].map(|_| open_process(child.id()).unwrap());
        poll.add_process(&processes[0], known.0).unwrap();
        poll.add_process(&processes[1], known.0 + 1).unwrap();
        child.wait().unwrap();
        let [process, _unknown] = processes;
        agents
            .connections
            .insert(known, Connection::awaited(known, process));
        assert_eq!(agents.take_ended(&poll), Ok(vec![known]));
        assert_eq!(poll.ended(), Ok(vec![known.0 + 1]), "still watched");
        assert_eq!(agents.take_ended(&poll), Ok(Vec::new()));
    }

    #[test]
    fn a_sweep_goes_through_all_in_slices() {
        let (socket, _) = rustix::pipe::pipe().unwrap();
        let mut agents = Agents::new(socket, Subordinates::default(), Time(0));
        assert_eq!(agents.next_timeout(), None, "nobody is there");
        for _ in 0..SWEPT_AT_ONCE + 3 {
            let id = agents.take_id();
            let process = open_process(std::process::id()).unwrap();
            agents
                .connections
                .insert(id, Connection::awaited(id, process));
        }
        let first = agents.next_slice(Time(5));
        assert_eq!((first.len(), first[0]), (SWEPT_AT_ONCE, ConnectionId(1)));
        assert_eq!(agents.next_timeout(), Some(Time(5)));
        let rest = agents.next_slice(Time(7));
        assert_eq!(rest.len(), 3);
        assert_eq!(rest[0].0, first[SWEPT_AT_ONCE - 1].0 + 1);
        assert_eq!(agents.next_slice(Time(8)), []);
        let again = Time(5) + SWEEP;
        assert_eq!(agents.next_timeout(), Some(again));
        assert_eq!(agents.next_slice(again), first);
    }
}
