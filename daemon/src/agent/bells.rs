//! Doorbells that are rung again until the agent has followed them: the page is the truth, and a doorbell
//! may be lost.

use std::collections::BTreeSet;

use rtswap_engine::ConnectionId;
use rtswap_policy::units::{Nanos, Time};
use rtswap_wire::page::{DeviceBlock, Direction};

/// How long until an unanswered doorbell is rung again.
const RING_AGAIN: Nanos = Nanos(20_000_000);

/// The doorbells to ring again, in the order of their times: each is one GPU's of one connection.
#[derive(Debug, Default)]
pub struct Bells(BTreeSet<(Time, ConnectionId, usize)>);

impl Bells {
    /// Schedules a doorbell that was rung at `now` to be rung again, then and not when it was due by
    /// the `former` ring.
    pub fn schedule(
        &mut self,
        now: Time,
        former: Option<Time>,
        connection: ConnectionId,
        gpu: usize,
    ) {
        if let Some(former) = former {
            self.0.remove(&(former, connection, gpu));
        }
        self.0.insert((now + RING_AGAIN, connection, gpu));
    }

    /// The earliest time at which [`Self::pop`] returns a doorbell.
    pub fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, ..)| *at)
    }

    /// Takes out one doorbell that is due at `now`, with the time for which it was scheduled.
    pub fn pop(&mut self, now: Time) -> Option<(Time, ConnectionId, usize)> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first()
    }
}

/// The orders for which one GPU's doorbell was rung last, until the agent has followed them.
#[derive(Debug, Default)]
pub struct Bell {
    /// Direction of the last ring, and when it is repeated.
    rung: Option<(Direction, Time)>,
    /// Sequence number of the swap operation, and the bytes in the backing store when it was last
    /// ordered or changed: once these change, the agent has seen the order.
    swap: Option<(u32, u64)>,
    /// Sequence number of the job that was revoked and may still be running.
    revoked: Option<u32>,
}

impl Bell {
    /// Records that the swap operation `seq` was ordered with `swapped` bytes in the backing store.
    pub fn record_swap(&mut self, seq: u32, swapped: u64) {
        self.swap = Some((seq, swapped));
    }

    /// Records that the last swap operation was given another credit, or aborted, with `swapped` bytes in
    /// the backing store.
    pub fn record_change(&mut self, swapped: u64) {
        if let Some((_, swapped_then)) = &mut self.swap {
            *swapped_then = swapped;
        }
    }

    /// Records that the job `seq` was revoked.
    pub fn record_revoke(&mut self, seq: u32) {
        self.revoked = Some(seq);
    }

    /// Records that a job was granted, so that a revoked one has ended.
    pub fn record_grant(&mut self) {
        self.revoked = None;
    }

    /// Records that the doorbell was rung at `now`. Returns when it was due by the ring before.
    pub fn record_ring(&mut self, direction: Direction, now: Time) -> Option<Time> {
        let former = self.rung.replace((direction, now + RING_AGAIN));
        former.map(|(_, due)| due)
    }

    /// The direction to ring again, if the repetition is due at `at` and the agent has not followed all
    /// orders for which it was rung.
    pub fn take_due(&mut self, at: Time, block: &DeviceBlock) -> Option<Direction> {
        let (direction, due) = self.rung?;
        if due != at {
            return None;
        }
        if self.is_heard(block) {
            self.rung = None;
            return None;
        }
        Some(direction)
    }

    fn is_heard(&self, block: &DeviceBlock) -> bool {
        let agent = &block.agent;
        let store = block.daemon.volume();
        let store = store.is_none_or(|(seq, _)| seq == agent.backing().0);
        let swap = self.swap.is_none_or(|(seq, swapped_then)| {
            let ended = agent.swap_report().is_some_and(|end| end.seq == seq);
            ended || agent.usage().swapped_bytes != swapped_then
        });
        let revoked = self
            .revoked
            .is_none_or(|job| agent.jobs().is_some_and(|jobs| jobs.completed == job));
        store && swap && revoked
    }
}

#[cfg(test)]
mod tests {
    use rtswap_wire::page::{JobKind, SwapOutcome, SwapReport};

    use super::*;

    const NOW: Time = Time(7);

    fn is_heard(bell: &mut Bell, block: &DeviceBlock) -> bool {
        bell.record_ring(Direction::In, NOW);
        bell.take_due(NOW + RING_AGAIN, block).is_none()
    }

    #[test]
    fn a_chunk_that_moved_before_an_order_does_not_show_that_it_was_heard() {
        let (block, mut bell) = (DeviceBlock::default(), Bell::default());
        block.agent.set_arena(100, 90);
        bell.record_swap(1, 90);
        assert!(!is_heard(&mut bell, &block));
        block.agent.set_arena(100, 60);
        assert!(is_heard(&mut bell, &block));
        bell.record_change(block.daemon.set_credit(&block.agent, 0));
        assert!(!is_heard(&mut bell, &block), "to be rung again");
        block.agent.set_arena(100, 30);
        assert!(is_heard(&mut bell, &block));
        bell.record_change(block.daemon.abort_swap(&block.agent, 1));
        assert!(!is_heard(&mut bell, &block));
        block.agent.end_swap(SwapReport {
            seq: 1,
            outcome: SwapOutcome::Aborted,
            ns: 1,
            moved_bytes: 70,
        });
        assert!(is_heard(&mut bell, &block));
    }

    #[test]
    fn revocations_and_backing_stores_are_rung_for_until_followed() {
        let (block, mut bell) = (DeviceBlock::default(), Bell::default());
        block.agent.request_job(3, JobKind::Implicit);
        bell.record_revoke(3);
        assert!(!is_heard(&mut bell, &block));
        block.agent.complete_job(3);
        assert!(is_heard(&mut bell, &block));
        block.agent.request_job(4, JobKind::Implicit);
        bell.record_revoke(4);
        assert!(!is_heard(&mut bell, &block));
        block.agent.complete_job(4);
        block.agent.complete_job(5);
        bell.record_grant();
        assert!(is_heard(&mut bell, &block), "a later job was granted");
        block.daemon.set_volume(10);
        assert!(!is_heard(&mut bell, &block));
        block.agent.confirm_volume(1, 10);
        assert!(is_heard(&mut bell, &block));
    }

    #[test]
    fn only_the_last_ring_is_due() {
        let (mut bells, mut bell) = (Bells::default(), Bell::default());
        let block = DeviceBlock::default();
        let later = Time(NOW.0 + 5);
        for now in [NOW, later] {
            bell.record_revoke(1);
            let former = bell.record_ring(Direction::In, now);
            bells.schedule(now, former, ConnectionId(1), 0);
        }
        assert_eq!(bells.next(), Some(later + RING_AGAIN), "no void wake-up");
        assert_eq!(bells.pop(NOW + RING_AGAIN), None);
        let (at, ..) = bells.pop(later + RING_AGAIN).unwrap();
        assert_eq!(bells.next(), None);
        assert_eq!(bell.take_due(NOW + RING_AGAIN, &block), None);
        assert_eq!(bell.take_due(at, &block), Some(Direction::In));
    }
}
