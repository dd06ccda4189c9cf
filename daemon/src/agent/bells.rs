//! Doorbells that are rung again until they are heard: the page is the truth, and a doorbell may be
//! lost.

use std::collections::BTreeSet;

use rtswap_engine::ConnectionId;
use rtswap_policy::units::{Nanos, Time};
use rtswap_wire::page::{DeviceBlock, Direction};

/// How long until an unanswered doorbell is rung again.
const RING_AGAIN: Nanos = Nanos(20_000_000);

/// When which GPU's doorbell of which connection is rung again.
#[derive(Debug, Default)]
pub struct Bells {
    queue: BTreeSet<(Time, ConnectionId, usize)>,
}

impl Bells {
    /// The doorbell was rung at `now`.
    pub fn rung(&mut self, now: Time, connection: ConnectionId, gpu: usize) {
        self.queue.insert((now + RING_AGAIN, connection, gpu));
    }

    /// When [`Self::pop`] has something.
    pub fn next(&self) -> Option<Time> {
        self.queue.first().map(|(at, ..)| *at)
    }

    /// Takes out one doorbell that is due at `now`, with the time at which it was.
    pub fn pop(&mut self, now: Time) -> Option<(Time, ConnectionId, usize)> {
        let due = self.queue.first().filter(|(at, ..)| *at <= now);
        due.copied().inspect(|entry| {
            self.queue.remove(entry);
        })
    }
}

/// What one GPU's doorbell was rung for last.
#[derive(Debug, Default)]
pub struct Bell {
    /// The way of the last ring, and when it is due again: an older entry of the queue is void.
    rung: Option<(Direction, Time)>,
    /// The swap operation, and the bytes in the backing store when the agent was last told of it.
    swap: Option<(u32, u64)>,
    /// Sequence number of the job that was revoked and may still be running.
    revoked: Option<u32>,
}

impl Bell {
    /// The agent is told of the swap operation `seq` with `swapped` bytes in its backing store.
    pub fn tell_swap(&mut self, seq: u32, swapped: u64) {
        self.swap = Some((seq, swapped));
    }

    /// The agent is told more of the swap operation that it was told of last.
    pub fn tell_more(&mut self, swapped: u64) {
        if let Some((_, told_at)) = &mut self.swap {
            *told_at = swapped;
        }
    }

    /// The agent is asked to end the job `seq`.
    pub fn revoke(&mut self, seq: u32) {
        self.revoked = Some(seq);
    }

    /// The agent is granted a job: no other is open any more.
    pub fn grant(&mut self) {
        self.revoked = None;
    }

    /// It is rung at `now`.
    pub fn ring(&mut self, direction: Direction, now: Time) {
        self.rung = Some((direction, now + RING_AGAIN));
    }

    /// The way to ring again, if that is due at `at` and the agent has not followed all that it was
    /// rung for.
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
        let swap = self.swap.is_none_or(|(seq, told_at)| {
            let ended = agent.swap_report().is_some_and(|end| end.seq == seq);
            ended || agent.usage().swapped_bytes != told_at
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
        bell.ring(Direction::In, NOW);
        bell.take_due(NOW + RING_AGAIN, block).is_none()
    }

    #[test]
    fn a_chunk_that_moved_before_an_order_does_not_show_that_it_was_heard() {
        let (block, mut bell) = (DeviceBlock::default(), Bell::default());
        block.agent.set_arena(100, 90);
        bell.tell_swap(1, 90);
        assert!(!is_heard(&mut bell, &block));
        block.agent.set_arena(100, 60);
        assert!(is_heard(&mut bell, &block));
        bell.tell_more(block.daemon.set_credit(&block.agent, 0));
        assert!(!is_heard(&mut bell, &block), "to be rung again");
        block.agent.set_arena(100, 30);
        assert!(is_heard(&mut bell, &block));
        bell.tell_more(block.daemon.abort_swap(&block.agent, 1));
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
        bell.revoke(3);
        assert!(!is_heard(&mut bell, &block));
        block.agent.complete_job(3);
        assert!(is_heard(&mut bell, &block));
        block.agent.request_job(4, JobKind::Implicit);
        bell.revoke(4);
        assert!(!is_heard(&mut bell, &block));
        block.agent.complete_job(4);
        block.agent.complete_job(5);
        bell.grant();
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
            bell.revoke(1);
            bell.ring(Direction::In, now);
            bells.rung(now, ConnectionId(1), 0);
        }
        assert_eq!(bells.next(), Some(NOW + RING_AGAIN));
        assert_eq!(bells.pop(NOW), None);
        let (first, ..) = bells.pop(NOW + RING_AGAIN).unwrap();
        assert_eq!(bell.take_due(first, &block), None);
        let (second, ..) = bells.pop(later + RING_AGAIN).unwrap();
        assert_eq!(bell.take_due(second, &block), Some(Direction::In));
    }
}
