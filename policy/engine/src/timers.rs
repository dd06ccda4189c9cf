//! One queue of all timers but the schedulers', which are asked themselves: their times change with each
//! event, and in a queue that would cost more than asking.

use alloc::collections::{BTreeMap, BTreeSet};

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;

use crate::ids::RegistrationId;
use crate::sessions::SessionId;

/// What comes due. Each has one time at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The process group of a task.
    Group(usize, TaskId),
    /// The doubted usage of a session on a GPU is judged.
    Doubt(SessionId, usize),
    /// What a session was told that it may have on a GPU is reserved for it no longer.
    Reserved(SessionId, usize),
    /// The process of a session without a connection should have come back.
    Lost(SessionId),
    /// A registration without a process ends.
    Claim(RegistrationId),
    /// What a dead process left on a GPU is taken for free where NVML does not tell.
    Grace,
    /// The processes of the daemon before are awaited no more.
    Recovery,
    /// NVML should have been read.
    NvmlLate,
    /// The eligible times that are kept are out of date.
    Checkpoint,
}

/// The timers that run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Time, Timer)>,
    due: BTreeMap<Timer, Time>,
}

impl Timers {
    /// Sets the time of `timer`, or stops it.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Time>) {
        if self.due.get(&timer).copied() == at {
            return;
        }
        let before = match at {
            Some(at) => {
                self.queue.insert((at, timer));
                self.due.insert(timer, at)
            }
            None => self.due.remove(&timer),
        };
        if let Some(before) = before {
            self.queue.remove(&(before, timer));
        }
    }

    /// The next time at which one is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due at `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Timer> {
        let &(at, timer) = self.queue.first()?;
        if at > now {
            return None;
        }
        self.queue.pop_first();
        self.due.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_has_one_time() {
        let mut timers = Timers::default();
        timers.set(Timer::Grace, Some(Time(5)));
        timers.set(Timer::Recovery, Some(Time(7)));
        timers.set(Timer::Grace, Some(Time(9)));
        assert_eq!(timers.next(), Some(Time(7)));
        assert_eq!(timers.pop(Time(6)), None);
        assert_eq!(timers.pop(Time(9)), Some(Timer::Recovery));
        assert_eq!(timers.pop(Time(9)), Some(Timer::Grace));
        assert_eq!(timers.pop(Time(9)), None);
        timers.set(Timer::Grace, Some(Time(5)));
        timers.set(Timer::Grace, None);
        assert_eq!((timers.next(), timers.pop(Time(9))), (None, None));
    }
}
