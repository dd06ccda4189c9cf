//! One queue of all timers.

use alloc::collections::{BTreeMap, BTreeSet};

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;

use crate::config::MAX_GPUS;
use crate::ids::RegistrationId;
use crate::sessions::SessionId;

/// What comes due. Each has one time at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The process group of a task.
    Group(usize, TaskId),
    /// The doubted usage of a session on a GPU is judged.
    Doubt(SessionId, usize),
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
    /// Those of the schedulers. Their times change with each event: in the queue that would allocate.
    schedulers: [Option<Time>; MAX_GPUS],
}

impl Timers {
    /// Sets the time of the scheduler of a GPU, or stops it.
    pub(crate) fn set_scheduler(&mut self, gpu: usize, at: Option<Time>) {
        self.schedulers[gpu] = at;
    }

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

    /// The next time at which anything is due.
    pub(crate) fn next(&self) -> Option<Time> {
        let others = self.queue.first().map(|(at, _)| *at);
        let schedulers = self.schedulers.iter().copied().flatten();
        schedulers.chain(others).min()
    }

    /// Takes out the scheduler of a GPU that is due at `now`: its index.
    pub(crate) fn pop_scheduler(&mut self, now: Time) -> Option<usize> {
        let is_due = |at: &Option<Time>| at.is_some_and(|at| at <= now);
        let gpu = self.schedulers.iter().position(is_due)?;
        self.schedulers[gpu] = None;
        Some(gpu)
    }

    /// Takes out one of the others that is due at `now`.
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
        timers.set_scheduler(1, Some(Time(3)));
        assert_eq!(timers.next(), Some(Time(3)));
        assert_eq!(timers.pop_scheduler(Time(2)), None);
        assert_eq!(timers.pop_scheduler(Time(3)), Some(1));
        assert_eq!(timers.next(), None);
    }
}
