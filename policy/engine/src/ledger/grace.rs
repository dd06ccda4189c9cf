//! How long the memory of dead processes counts where NVML does not tell.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;

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
    use super::*;

    #[test]
    fn a_task_waits_for_its_last_dead_process() {
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
