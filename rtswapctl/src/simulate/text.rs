//! A simulation for people.

use std::time::Duration;

use rtswap_policy::units::Nanos;

use super::answer::{Answer, Task};
use crate::table::{bytes, millis, table};

impl Answer<'_> {
    pub(super) fn text(&self) -> String {
        let releases = match self.seed {
            Some(seed) => format!("first releases drawn from seed {seed}"),
            None => "all released at once".to_owned(),
        };
        let heads = [
            "TASK",
            "DEADLINE",
            "SWAP VOLUME",
            "JOBS",
            "MISSES",
            "P50",
            "P99",
            "MAX",
        ];
        let rows: Vec<_> = self.tasks.iter().map(Task::row).collect();
        let head = format!(
            "{:?} of the plan by the test {}, in chunks of {}, {releases}.\n\n",
            Duration::from_nanos(self.duration_ns),
            self.test,
            bytes(self.chunk_bytes),
        );
        let sum = format!("\n{} jobs, {} deadline misses.\n", self.jobs, self.misses);
        let refused = self.tasks.iter().filter_map(|task| {
            let reason = task.refused?;
            Some(format!("{} was refused: {reason}\n", task.name))
        });
        let violations = self
            .violations
            .iter()
            .map(|said| format!("violation: {said}\n"));
        [head, table(&heads, &[0], &rows), sum]
            .into_iter()
            .chain(refused)
            .chain(violations)
            .collect()
    }
}

impl Task<'_> {
    fn row(&self) -> Vec<String> {
        let times = self.response_ns.as_ref();
        let time = |nanos: Option<u64>| millis(Nanos(nanos.unwrap_or(0)));
        vec![
            self.name.to_owned(),
            millis(Nanos(self.deadline_ns)),
            bytes(self.swap_volume_bytes),
            self.jobs.to_string(),
            self.misses.to_string(),
            time(times.map(|times| times.p50)),
            time(times.map(|times| times.p99)),
            time(times.map(|times| times.max)),
        ]
    }
}
