//! A plan for people: a table, and in one sentence what binds.

use rtswap_policy::admission::{Analysis, Test};
use rtswap_policy::assign::{Assignment, Objective};
use rtswap_policy::units::Bytes;

use super::{Planned, next};
use crate::table::{Widths, bytes, lines, millis, wrapped};

impl Planned {
    /// For a terminal of so many columns; without, no line is broken and no column left out.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let Some(plan) = self.assignment() else {
            return wrapped(&self.refusal(), 0, width);
        };
        let chunk = bytes(plan.chunk.0);
        let (begin, end) = match &self.result {
            Ok(_) => (self.verdict(plan), self.binding(&plan.analysis)),
            Err(_) => (
                format!("The best that was found, in chunks of {chunk}:"),
                self.refusal(),
            ),
        };
        let (begin, end) = (wrapped(&begin, 0, width), wrapped(&end, 0, width));
        let table = self.table(plan, width);
        format!("{begin}\n{table}\n{end}{}", self.in_job_text(width))
    }

    /// The same of tasks by their profiles: where they are to run, and what to type next.
    pub(super) fn profiled_text(
        &self,
        place: &str,
        commands: &[String],
        width: Option<usize>,
    ) -> String {
        let text = wrapped(place, 0, width) + &self.text(width);
        let told = |command: &str| next::continued(command, width);
        if self.result.is_err() {
            let next = next::longer(self).map(|command| told(&format!("next: {command}")));
            return next.map_or(text.clone(), |next| format!("{text}\n{next}"));
        }
        let commands: String = commands.iter().map(|command| told(command)).collect();
        format!("{text}\nEach C was measured, not proven. next:\n{commands}")
    }

    fn refusal(&self) -> String {
        let reason = self.reason().unwrap_or_default();
        format!(
            "Not schedulable by the test {}: {reason}.\n",
            self.test.name()
        )
    }

    fn verdict(&self, plan: &Assignment) -> String {
        let total: Bytes = plan.volumes.iter().copied().sum();
        let needed: Bytes = self
            .set
            .tasks
            .iter()
            .map(|task| task.memory.footprint)
            .sum();
        let capacity = self.set.gpu.capacity;
        let load = needed.0 as f64 / capacity.0 as f64;
        let least = match self.objective {
            Objective::Time => "least time spent swapping",
            Objective::Volume => "fewest bytes",
        };
        let tasks = match self.set.tasks.len() {
            1 => String::from("1 task needs"),
            many => format!("{many} tasks need"),
        };
        // A gap that is written is never written too small.
        let optimal = match (plan.gap * 1000.0).ceil() {
            0.0 => format!("the {least}"),
            tenths => format!("within {} % of the {least}", tenths / 10.0),
        };
        format!(
            "Schedulable by the test {}: {tasks} {load:.2} times the {} of the GPU.\n\
             Chunks of {}, {} may be swapped out: {optimal}.",
            self.test.name(),
            bytes(capacity.0),
            bytes(plan.chunk.0),
            bytes(total.0),
        )
    }

    fn table(&self, plan: &Assignment, width: Option<usize>) -> String {
        let constrained = self
            .set
            .tasks
            .iter()
            .any(|task| task.timing.deadline < task.timing.period);
        let mut heads = vec!["TASK", "PERIOD"];
        if constrained {
            heads.push("DEADLINE");
        }
        heads.extend([
            "WCET",
            "FOOTPRINT",
            "SWAP VOLUME",
            "SWAP OUT",
            "SWAP IN",
            "UTILIZATION",
        ]);
        let count = heads.len();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (place, task) in self.set.tasks.iter().enumerate() {
            let load = &plan.analysis.tasks[place];
            let mut row = vec![task.name.clone(), millis(task.timing.period)];
            if constrained {
                row.push(millis(task.timing.deadline));
            }
            row.extend([
                millis(task.timing.wcet),
                bytes(task.memory.footprint.0),
                bytes(plan.volumes[place].0),
                millis(load.swap_out),
                millis(load.swap_in),
                format!("{:.4}", load.utilization),
            ]);
            rows.push(row);
        }
        let footprint: Bytes = self
            .set
            .tasks
            .iter()
            .map(|task| task.memory.footprint)
            .sum();
        let volume: Bytes = plan.volumes.iter().copied().sum();
        let mut total = vec![String::new(); count];
        total[0] = "total".into();
        total[count - 5] = bytes(footprint.0);
        total[count - 4] = bytes(volume.0);
        total[count - 1] = format!("{:.4}", plan.analysis.utilization);
        rows.push(total);
        let widths = Widths {
            most: width,
            // FOOTPRINT, SWAP OUT, SWAP IN, WCET.
            first_to_go: &[count - 5, count - 3, count - 2, count - 6],
        };
        lines(&heads, &[0], &rows, widths).concat()
    }

    /// What would fail first.
    fn binding(&self, analysis: &Analysis) -> String {
        let blocking = analysis.blocking.describe(|place| self.name(place));
        let shortest = self.set.tasks.iter().map(|task| task.timing.deadline).min();
        match (analysis.test, analysis.binding, shortest) {
            (Test::Theorem1, _, Some(shortest)) => format!(
                "What binds: Eq. (3), {:.4} of {:.4}: the utilization and a blocking of {blocking} \
                 over the shortest deadline, {}.\n",
                analysis.demand,
                analysis.bound,
                millis(shortest),
            ),
            (_, Some(span), _) => format!(
                "What binds: within {} of a release, jobs and a blocking of {blocking} take {:.4} of \
                 the time.\n",
                millis(span),
                analysis.demand,
            ),
            _ => format!(
                "What binds: the utilization, {:.4} of {:.4}; no span up to a deadline is fuller.\n",
                analysis.utilization, analysis.bound,
            ),
        }
    }
}
