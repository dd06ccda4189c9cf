//! Dead processes with memory that the driver may not have released yet.
//!
//! It is dying until NVML shows neither the process nor additional memory of no process, because a driver
//! may forget a process before it has its memory back. After ten seconds such memory counts as others'.
//! Where NVML does not tell, it is dying until a grace period ends.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::sample::{GpuSample, Identity};

/// After this long the log says that a dead process still holds memory.
const RELEASE_TIMEOUT: Nanos = Nanos(10_000_000_000);

/// One dead process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The task that the process was part of, and that its dying memory counts for.
    pub task: TaskId,
    /// The pid as NVML numbers it.
    pub pid: u32,
    /// What tells the process from a later one with the same pid.
    pub identity: Identity,
    /// When the daemon saw that the process was dead.
    pub died: Time,
    /// How long its memory counts where NVML cannot tell.
    pub grace: Nanos,
    /// Whether it executed another program: NVML may show what that one holds under the same pid.
    pub lives_on: bool,
    /// Whether [`Departed::late`] has named it.
    is_reported: bool,
}

impl Dead {
    /// A process that died at `died`.
    pub fn new(task: TaskId, pid: u32, identity: Identity, died: Time, grace: Nanos) -> Self {
        Self {
            task,
            pid,
            identity,
            died,
            grace,
            lives_on: false,
            is_reported: false,
        }
    }

    /// Whether the driver shows the process no more.
    fn is_unseen(&self, look: &Look<'_>) -> bool {
        let past_grace = look.now - self.died >= self.grace;
        let Some(sample) = look.sample else {
            return past_grace;
        };
        if look.began <= self.died {
            return false;
        }
        let shown = sample.process(self.pid).is_some_and(|process| {
            let identity = process.identity.as_ref();
            identity.is_none_or(|it| it.start_ticks == self.identity.start_ticks)
        });
        (!shown && look.trusted) || ((!shown || self.lives_on) && past_grace)
    }
}

/// One sample of a GPU, as far as it concerns the dead processes there.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// When reading the sample began.
    pub began: Time,
    /// The present time.
    pub now: Time,
    /// The sample; none where NVML is silent about the GPU.
    pub sample: Option<&'a GpuSample>,
    /// Whether NVML numbers processes by the daemon's PID namespace.
    pub trusted: bool,
    /// The bytes of no process beyond those before the first death: a driver may forget a process
    /// before it has its memory back.
    pub unattributed: Bytes,
}

/// What a sample means for the dead processes of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// The tasks that have no dying memory any more.
    pub gone: Vec<TaskId>,
    /// The processes that have held their memory for ten seconds since they died, each once.
    pub late: Vec<Dead>,
}

/// Removes from `dead` the processes that have given their memory back. `dying` returns the bytes
/// that a task's dead processes left, all together.
pub fn take_departed(
    dead: &mut Vec<Dead>,
    look: &Look<'_>,
    dying: impl Fn(TaskId) -> Bytes,
) -> Departed {
    let mut departed = Departed::default();
    // By task, in the order of the first deaths: whether all its dead are unseen, and all late.
    let mut tasks: Vec<(TaskId, bool, bool)> = Vec::new();
    for dead in dead.iter_mut() {
        let (unseen, late) = (
            dead.is_unseen(look),
            look.now - dead.died >= RELEASE_TIMEOUT,
        );
        if late && !core::mem::replace(&mut dead.is_reported, true) {
            departed.late.push(dead.clone());
        }
        match tasks.iter_mut().find(|(task, ..)| *task == dead.task) {
            Some((_, all_unseen, all_late)) => {
                *all_unseen &= unseen;
                *all_late &= late;
            }
            None => tasks.push((dead.task, unseen, late)),
        }
    }
    tasks.retain(|(_, unseen, _)| *unseen);
    let mut left: Bytes = tasks.iter().map(|(task, ..)| dying(*task)).sum();
    for (task, _, late) in tasks {
        let without = left.saturating_sub(dying(task));
        // Memory of no process may belong to those that died later. After a long time it counts as
        // others' memory, and as dying no more.
        if without >= look.unattributed || late {
            left = without;
            departed.gone.push(task);
        }
    }
    dead.retain(|dead| !departed.gone.contains(&dead.task));
    departed
}

/// The ends of the grace periods, each of one dead process of a task on a GPU. GPUs are numbered by
/// the caller.
#[derive(Debug, Default)]
pub struct Graces(BTreeSet<(Time, usize, TaskId)>);

impl Graces {
    /// Begins a grace period: a process of `task` died on `gpu`, and its memory counts until `end`.
    pub fn begin(&mut self, gpu: usize, task: TaskId, end: Time) {
        self.0.insert((end, gpu, task));
    }

    /// When to call [`Self::take_expired`] next; none where no grace period runs.
    pub fn next(&self) -> Option<Time> {
        self.0.first().map(|(end, ..)| *end)
    }

    /// Removes the grace periods that ended by `now`; returns the tasks, by GPU, that have none left
    /// there. The memory of a task's dead processes counts as one, so it is free with the last of them.
    pub fn take_expired(&mut self, now: Time) -> Vec<(usize, TaskId)> {
        let mut expired = Vec::new();
        while let Some(&(end, gpu, task)) = self.0.first()
            && end <= now
        {
            self.0.pop_first();
            let another = |(_, on, of): &(Time, usize, TaskId)| (*on, *of) == (gpu, task);
            if !self.0.iter().any(another) {
                expired.push((gpu, task));
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::ledger::tests::{process, sample};

    const DIED: Time = Time(1_000);

    fn dead() -> Dead {
        let identity = process(7, 40).identity.unwrap();
        Dead::new(TaskId(1), 7, identity, DIED, Nanos(500))
    }

    fn look(at: u64, sample: Option<&GpuSample>) -> Look<'_> {
        Look {
            began: Time(at),
            now: Time(at + 50),
            sample,
            trusted: true,
            unattributed: Bytes::ZERO,
        }
    }

    fn is_gone(dead: Dead, look: Look<'_>) -> bool {
        take_departed(&mut vec![dead], &look, |_| Bytes(40)).gone == [TaskId(1)]
    }

    #[test]
    fn a_process_is_gone_when_a_later_sample_shows_it_no_more() {
        let (with, without) = (sample(64, &[process(7, 40)]), sample(64, &[]));
        assert!(!is_gone(dead(), look(900, Some(&without))), "it lived then");
        assert!(!is_gone(dead(), look(1_050, Some(&with))));
        assert!(is_gone(dead(), look(1_050, Some(&without))));
        assert!(!is_gone(dead(), look(1_050, None)));
        assert!(is_gone(dead(), look(1_600, None)), "NVML is silent");
        let foreign = |at, shown| Look {
            trusted: false,
            ..look(at, Some(shown))
        };
        assert!(
            !is_gone(dead(), foreign(1_050, &without)),
            "it never shows any"
        );
        assert!(is_gone(dead(), foreign(1_600, &without)));
        assert!(!is_gone(dead(), foreign(1_600, &with)));
    }

    #[test]
    fn memory_that_the_driver_does_not_have_back_yet_is_waited_for() {
        let shown = sample(64, &[]);
        let mut both = vec![dead(), dead()];
        both[1].task = TaskId(2);
        let mut at = |now, unattributed| {
            let look = Look {
                unattributed: Bytes(unattributed),
                ..look(now, Some(&shown))
            };
            take_departed(&mut both, &look, |_| Bytes(40))
        };
        assert_eq!(at(1_050, 80).gone, []);
        assert_eq!(at(1_060, 41).gone, [], "41 cannot be the second's alone");
        assert_eq!(at(1_070, 40).gone, [TaskId(1)]);
        let late = at(RELEASE_TIMEOUT.0 + 2_000, 40);
        assert_eq!(late.gone, [TaskId(2)], "others' memory from now on");
        assert_eq!(late.late.len(), 1);
    }

    #[test]
    fn a_task_is_gone_with_its_last_dead_process() {
        let shown = sample(64, &[process(8, 40)]);
        let mut both = vec![dead(), dead()];
        both[1].pid = 8;
        let all = |_| Bytes(80);
        assert_eq!(
            take_departed(&mut both, &look(1_050, Some(&shown)), all).gone,
            []
        );
        let none = sample(64, &[]);
        let departed = take_departed(&mut both, &look(1_060, Some(&none)), all);
        assert_eq!(departed.gone, [TaskId(1)]);
        assert_eq!(both, []);
    }

    #[test]
    fn a_process_with_the_same_pid_is_another() {
        let mut other = process(7, 40);
        other.identity.as_mut().unwrap().start_ticks = 99;
        assert!(is_gone(dead(), look(1_050, Some(&sample(64, &[other])))));
        let mut gone = process(7, 40);
        gone.identity = None;
        assert!(!is_gone(dead(), look(1_050, Some(&sample(64, &[gone])))));
    }

    #[test]
    fn a_late_process_is_reported_once() {
        let with = sample(64, &[process(7, 40)]);
        let mut all = vec![dead()];
        let mut late = |at| {
            take_departed(&mut all, &look(at, Some(&with)), |_| Bytes(40))
                .late
                .len()
        };
        assert_eq!(
            (
                late(2_000),
                late(RELEASE_TIMEOUT.0 + 2_000),
                late(RELEASE_TIMEOUT.0 + 3_000)
            ),
            (0, 1, 0)
        );
    }

    #[test]
    fn without_nvml_a_task_waits_for_the_last_of_its_graces() {
        let (one, two) = (TaskId(1), TaskId(2));
        let mut graces = Graces::default();
        graces.begin(0, one, Time(100));
        graces.begin(1, one, Time(100));
        graces.begin(0, two, Time(100));
        graces.begin(0, one, Time(150));
        assert_eq!(graces.next(), Some(Time(100)));
        assert_eq!(graces.take_expired(Time(99)), []);
        assert_eq!(graces.take_expired(Time(100)), [(0, two), (1, one)]);
        assert_eq!(graces.take_expired(Time(149)), []);
        assert_eq!(graces.take_expired(Time(150)), [(0, one)]);
        assert_eq!(graces.next(), None);
    }
}
