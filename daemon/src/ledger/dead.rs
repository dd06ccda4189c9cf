//! Dead processes whose memory the driver may still hold.

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::source::gpu::{GpuSample, Identity};

/// After so long somebody should look at the driver.
const PATIENCE: Nanos = Nanos(10_000_000_000);

/// One dead process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The task whose dying memory it is.
    pub task: TaskId,
    /// As NVML numbers it.
    pub pid: u32,
    /// Which process of that number it was.
    pub identity: Identity,
    /// When it was seen to be dead.
    pub died: Time,
    /// For how long its memory counts where NVML cannot tell.
    pub grace: Nanos,
    /// That it takes long has been said.
    complained: bool,
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
            complained: false,
        }
    }

    /// Whether the driver shows it no more.
    fn is_unseen(&self, look: &Look<'_>) -> bool {
        let past_grace = look.now - self.died >= self.grace;
        let Some(sample) = look.sample else {
            return past_grace;
        };
        if look.began <= self.died {
            return false;
        }
        let shown = sample.processes.iter().any(|process| {
            let identity = process.identity.as_ref();
            let other = identity.is_some_and(|it| it.start_ticks != self.identity.start_ticks);
            process.pid == self.pid && !other
        });
        !shown && (look.trusted || past_grace)
    }

    fn is_late(&self, now: Time) -> bool {
        now - self.died >= PATIENCE
    }
}

/// A look at a GPU, for its dead.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// When it began.
    pub began: Time,
    /// When it is judged.
    pub now: Time,
    /// What it showed; none where NVML does not speak of the GPU any more.
    pub sample: Option<&'a GpuSample>,
    /// NVML shows the processes of this PID namespace.
    pub trusted: bool,
    /// What is used and shown of no process, more than before anybody died: a driver may forget a
    /// process before it has its memory back.
    pub nobodys: Bytes,
}

/// What a look means for the dead of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// Tasks that have left nothing any more.
    pub gone: Vec<TaskId>,
    /// Who is waited for too long. Each once.
    pub late: Vec<Dead>,
}

/// Takes those out of `dead` whose memory is gone. `dying` is what a task's dead left, all together.
pub fn depart(dead: &mut Vec<Dead>, look: &Look<'_>, dying: impl Fn(TaskId) -> Bytes) -> Departed {
    let mut departed = Departed::default();
    // By task, the one that died first in front: whether all its dead are unseen.
    let mut tasks: Vec<(TaskId, bool, bool)> = Vec::new();
    for dead in dead.iter_mut() {
        let (unseen, late) = (dead.is_unseen(look), dead.is_late(look.now));
        if late && !std::mem::replace(&mut dead.complained, true) {
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
        // What is nobody's may be that of those who died after it. After a long time it is
        // counted as nobody's, and dying no more.
        if without >= look.nobodys || late {
            left = without;
            departed.gone.push(task);
        }
    }
    dead.retain(|dead| !departed.gone.contains(&dead.task));
    departed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::account::tests::{process, sample};

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
            nobodys: Bytes::ZERO,
        }
    }

    fn is_gone(dead: Dead, look: Look<'_>) -> bool {
        depart(&mut vec![dead], &look, |_| Bytes(40)).gone == [TaskId(1)]
    }

    #[test]
    fn it_is_gone_when_a_later_look_shows_it_no_more() {
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
    fn memory_that_a_driver_has_not_back_yet_is_waited_for() {
        let shown = sample(64, &[]);
        let mut both = vec![dead(), dead()];
        both[1].task = TaskId(2);
        let mut at = |now, nobodys| {
            let look = Look {
                nobodys: Bytes(nobodys),
                ..look(now, Some(&shown))
            };
            depart(&mut both, &look, |_| Bytes(40))
        };
        assert_eq!(at(1_050, 80).gone, []);
        assert_eq!(at(1_060, 41).gone, [], "41 cannot be the second's alone");
        assert_eq!(at(1_070, 40).gone, [TaskId(1)]);
        let late = at(PATIENCE.0 + 2_000, 40);
        assert_eq!(late.gone, [TaskId(2)], "nobody's from now on");
        assert_eq!(late.late.len(), 1);
    }

    #[test]
    fn a_task_is_gone_with_the_last_of_its_dead() {
        let shown = sample(64, &[process(8, 40)]);
        let mut both = vec![dead(), dead()];
        both[1].pid = 8;
        let all = |_| Bytes(80);
        assert_eq!(depart(&mut both, &look(1_050, Some(&shown)), all).gone, []);
        let none = sample(64, &[]);
        let departed = depart(&mut both, &look(1_060, Some(&none)), all);
        assert_eq!(departed.gone, [TaskId(1)]);
        assert_eq!(both, []);
    }

    #[test]
    fn another_process_of_its_number_is_not_it() {
        let mut other = process(7, 40);
        other.identity.as_mut().unwrap().start_ticks = 99;
        assert!(is_gone(dead(), look(1_050, Some(&sample(64, &[other])))));
        let mut gone = process(7, 40);
        gone.identity = None;
        assert!(!is_gone(dead(), look(1_050, Some(&sample(64, &[gone])))));
    }

    #[test]
    fn it_is_late_once() {
        let with = sample(64, &[process(7, 40)]);
        let mut all = vec![dead()];
        let mut late = |at| {
            depart(&mut all, &look(at, Some(&with)), |_| Bytes(40))
                .late
                .len()
        };
        assert_eq!(
            (
                late(2_000),
                late(PATIENCE.0 + 2_000),
                late(PATIENCE.0 + 3_000)
            ),
            (0, 1, 0)
        );
    }
}
