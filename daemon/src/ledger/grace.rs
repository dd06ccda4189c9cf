//! How long the memory of the dead counts where the driver does not tell.

use std::collections::BTreeSet;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;

/// The ends of it, each of one dead process of a task on a GPU.
#[derive(Debug, Default)]
pub struct Graces(BTreeSet<(Time, usize, TaskId)>);

impl Graces {
    /// One more process of `task` has died on `gpu`: its memory counts until `end`.
    pub fn begin(&mut self, gpu: usize, task: TaskId, end: Time) {
        self.0.insert((end, gpu, task));
    }

    /// When to ask [`Self::over`] next.
    pub fn next(&self) -> Option<Time> {
        self.0.first().map(|(end, ..)| *end)
    }

    /// The tasks whose last grace is over. What several dead of a task left counts as one, so it
    /// goes with the one that died last.
    pub fn over(&mut self, now: Time) -> Vec<(usize, TaskId)> {
        let mut over = Vec::new();
        while let Some(&(end, gpu, task)) = self.0.first()
            && end <= now
        {
            self.0.pop_first();
            let another = |(_, on, of): &(Time, usize, TaskId)| (*on, *of) == (gpu, task);
            if !self.0.iter().any(another) {
                over.push((gpu, task));
            }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_waits_for_the_last_of_its_dead() {
        let (one, two) = (TaskId(1), TaskId(2));
        let mut graces = Graces::default();
        graces.begin(0, one, Time(100));
        graces.begin(1, one, Time(100));
        graces.begin(0, two, Time(100));
        graces.begin(0, one, Time(150));
        assert_eq!(graces.next(), Some(Time(100)));
        assert_eq!(graces.over(Time(99)), []);
        assert_eq!(graces.over(Time(100)), [(0, two), (1, one)]);
        assert_eq!(graces.over(Time(149)), []);
        assert_eq!(graces.over(Time(150)), [(0, one)]);
        assert_eq!(graces.next(), None);
    }
}
