//! The task's backing store as those of its processes.
//!
//! A store that one process has is of no use to another, so the task's is not simply their sum: of
//! it the scheduler believes that all can be filled, as far as there is arena to fill it with. That
//! is so of the sum while every process can put its whole arena into its own; if one cannot, only
//! what each has both arena and store for counts.

use std::cmp::Reverse;

use rtswap_policy::scheduler::{Command, Event, EventError};
use rtswap_policy::units::Bytes;

use super::Members;
use super::member::{Member, State};

impl Members {
    pub(super) fn set_volume(&mut self, bytes: Bytes) {
        self.volume = Some(bytes);
        let shrinks = bytes < self.told_backing;
        let fair = self.stores_beside(bytes);
        for (at, fair) in fair.into_iter().enumerate() {
            let member = &self.all[at];
            let asks = if shrinks {
                fair != member.backing
            } else {
                member.can_pin(fair)
            };
            if asks && member.state == State::Present {
                self.ask_store(at, fair);
            }
        }
    }

    fn ask_store(&mut self, at: usize, bytes: Bytes) {
        self.all[at].backing_asked = Some(bytes);
        let task = self.task;
        self.order(at, Command::SetVolume { task, bytes });
    }

    /// As [`Self::stores`], less what is meant for those that are silent.
    fn stores_beside(&self, bytes: Bytes) -> Vec<Bytes> {
        let silent = self.apart().round_down(self.chunk);
        self.stores(bytes.saturating_sub(silent))
    }

    /// How `bytes` of backing store are best shared out: to those that have arena for it, of them
    /// first to those that have a store already; what is left in proportion, for what they will yet
    /// allocate.
    fn stores(&self, bytes: Bytes) -> Vec<Bytes> {
        let members = &self.all;
        let mut fair = vec![Bytes::ZERO; members.len()];
        let here = |at: &usize| members[*at].state == State::Present;
        let mut order: Vec<_> = (0..members.len()).filter(here).collect();
        order.sort_by_key(|at| (Reverse(members[*at].usage.arena), *at));
        let mut rest = bytes;
        let mut fill = |fair: &mut Vec<Bytes>, at: usize, up_to: Bytes| {
            let more = up_to
                .round_up(self.chunk)
                .saturating_sub(fair[at])
                .min(rest);
            fair[at] += more;
            rest = rest.saturating_sub(more);
            rest
        };
        for &at in &order {
            fill(
                &mut fair,
                at,
                members[at].usage.arena.min(members[at].backing),
            );
        }
        let mut left = bytes;
        for &at in &order {
            let most = members[at].backing_most.unwrap_or(Bytes::MAX);
            left = fill(&mut fair, at, members[at].usage.arena.min(most));
        }
        let arena: Bytes = order.iter().map(|at| members[*at].usage.arena).sum();
        for &at in &order {
            let part = u128::from(left.0) * u128::from(members[at].usage.arena.0);
            let part = part.checked_div(u128::from(arena.0)).unwrap_or_default();
            let had = fair[at];
            fill(
                &mut fair,
                at,
                had + Bytes(u64::try_from(part).unwrap_or(u64::MAX)),
            );
        }
        if let Some(&first) = order.first() {
            let had = fair[first];
            fill(&mut fair, first, Bytes(had.0.saturating_add(bytes.0)));
        }
        fair
    }

    pub(super) fn backed(&mut self, at: usize, bytes: Bytes) -> Result<(), EventError> {
        let task = self.task;
        let member = &mut self.all[at];
        let moving = member
            .part
            .map_or(Bytes::ZERO, |part| part.from.max(part.target));
        if bytes < member.usage.swapped.max(moving) {
            let what = "of backing store, less than is in use";
            return Err(EventError::Impossible { task, what, bytes });
        }
        member.backing = bytes;
        if let Some(asked) = member.backing_asked.take()
            && bytes < asked
        {
            member.backing_most = Some(bytes);
        } else if member.backing_most.is_some_and(|most| bytes > most) {
            member.backing_most = None;
        }
        Ok(())
    }

    /// Answers the scheduler when all processes have: those that can pin more are asked for what
    /// others could not, or for what has become arena meanwhile. Unasked, says what has changed.
    pub(super) fn settle_volume(&mut self) {
        let outstanding = |member: &Member| member.backing_asked.is_some();
        if self.swap.is_some() || self.present().any(outstanding) {
            return;
        }
        let bytes = self.backing();
        if let Some(asked) = self.volume {
            if bytes < asked {
                let fair = self.stores_beside(asked);
                for (at, fair) in fair.into_iter().enumerate() {
                    let member = &self.all[at];
                    if member.state == State::Present && member.can_pin(fair) {
                        self.ask_store(at, fair);
                    }
                }
                if self.present().any(outstanding) {
                    return;
                }
                if self.apart() > Bytes::ZERO {
                    // Who is silent has not refused.
                    if bytes > self.told_backing {
                        self.tell_changes(Bytes::ZERO);
                    }
                    return;
                }
            }
            self.volume = None;
        } else if bytes == self.told_backing {
            return;
        }
        self.told_backing = bytes;
        let task = self.task;
        self.tell(Event::Backing { task, bytes });
    }

    /// Whether the scheduler believes in a larger backing store than there is.
    pub(super) fn is_overstated(&self) -> bool {
        let believed = self
            .volume
            .map_or(self.told_backing, |asked| asked.min(self.told_backing));
        self.backing() < believed
    }

    /// The backing store of the task.
    pub(super) fn backing(&self) -> Bytes {
        if self.all.iter().any(Member::lacks_store) {
            return self.storable();
        }
        self.present().map(|it| it.backing).sum()
    }

    /// What can be out at once.
    pub(super) fn storable(&self) -> Bytes {
        let each = self.present();
        each.map(|it| it.backing.min(it.usage.arena)).sum()
    }
}

impl Member {
    /// Whether some of its arena cannot leave.
    fn lacks_store(&self) -> bool {
        match self.state {
            State::Present => self.backing < self.usage.arena,
            State::Away | State::Returning => self.budget > Bytes::ZERO,
        }
    }

    /// Whether asking it for a store of `bytes` may get a larger one.
    fn can_pin(&self, bytes: Bytes) -> bool {
        bytes > self.backing && self.backing_most.is_none_or(|most| most > self.backing)
    }
}
