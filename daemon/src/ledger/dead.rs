//! A dead process whose memory the driver may still hold.

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

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

    /// Whether its memory is gone, by a look at its GPU that `began` then; none if there was none
    /// to be had. `trusted`: NVML shows the processes of this PID namespace.
    pub fn is_gone(
        &self,
        began: Time,
        now: Time,
        sample: Option<&GpuSample>,
        trusted: bool,
    ) -> bool {
        let past_grace = now - self.died >= self.grace;
        let Some(sample) = sample else {
            return past_grace;
        };
        if began <= self.died {
            return false;
        }
        let shown = sample.processes.iter().any(|process| {
            let other = process
                .identity
                .as_ref()
                .is_some_and(|identity| identity.start_ticks != self.identity.start_ticks);
            process.pid == self.pid && !other
        });
        !shown && (trusted || past_grace)
    }

    /// Whether it is time to say that it takes long. Once.
    pub fn complains(&mut self, now: Time) -> bool {
        let long = now - self.died >= PATIENCE;
        long && !std::mem::replace(&mut self.complained, long)
    }
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

    #[test]
    fn it_is_gone_when_a_later_look_shows_it_no_more() {
        let (with, without) = (sample(64, &[process(7, 40)]), sample(64, &[]));
        let gone = |began, gpu, trusted| dead().is_gone(Time(began), Time(1_100), gpu, trusted);
        assert!(!gone(900, Some(&without), true), "it lived then");
        assert!(!gone(1_050, Some(&with), true));
        assert!(gone(1_050, Some(&without), true));
        assert!(!gone(1_050, Some(&without), false), "it never shows any");
        assert!(!gone(1_050, None, true));
        let late = Time(1_600);
        assert!(dead().is_gone(late, late, Some(&without), false));
        assert!(dead().is_gone(late, late, None, true), "NVML is silent");
        assert!(!dead().is_gone(late, late, Some(&with), false));
    }

    #[test]
    fn another_process_of_its_number_is_not_it() {
        let mut other = process(7, 40);
        other.identity.as_mut().unwrap().start_ticks = 99;
        let reused = sample(64, &[other]);
        assert!(dead().is_gone(Time(1_050), Time(1_100), Some(&reused), true));
        let mut gone = process(7, 40);
        gone.identity = None;
        let held = sample(64, &[gone]);
        assert!(!dead().is_gone(Time(1_050), Time(1_100), Some(&held), true));
    }

    #[test]
    fn it_complains_once() {
        let mut dead = dead();
        assert!(!dead.complains(Time(2_000)));
        assert!(dead.complains(DIED + PATIENCE));
        assert!(!dead.complains(DIED + PATIENCE + PATIENCE));
    }
}
