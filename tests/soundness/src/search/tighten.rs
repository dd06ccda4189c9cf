//! To the edge of an admission test: where the least less time is refused.

use crate::case::Case;
use crate::verdict::Admission;

/// No period becomes so many times longer.
const MOST: i64 = 1 << 12;
/// In how fine steps periods are scaled.
const STEPS: i64 = 1 << 10;

impl Case {
    /// Whether `admission` admits every set of the case.
    pub fn admitted(&self, admission: Admission) -> bool {
        let platform = self.platform();
        admission.admits(&platform, &self.before())
            && (self.change.is_none() || admission.admits(&platform, &self.after()))
    }
}

/// Scales all periods and deadlines to about the least that `admission` admits. False if there is
/// no such scale.
pub fn tighten(case: &mut Case, admission: Admission) -> bool {
    let spans: Vec<(i64, i64)> = case.tasks.iter().map(|t| (t.period, t.deadline)).collect();
    let scaled = |case: &mut Case, steps: i64| {
        for (task, (period, deadline)) in case.tasks.iter_mut().zip(&spans) {
            let to = |span: i64| (span * steps + STEPS - 1) / STEPS;
            task.deadline = to(*deadline).max(task.wcet);
            task.period = to(*period).max(task.deadline);
        }
        case.admitted(admission)
    };
    let mut most = STEPS;
    while !scaled(case, most) {
        most *= 2;
        if most > STEPS * MOST {
            return false;
        }
    }
    let mut least = if most == STEPS { 0 } else { most / 2 };
    while most - least > (most / 256).max(1) {
        let middle = i64::midpoint(least, most);
        if scaled(case, middle) {
            most = middle;
        } else {
            least = middle;
        }
    }
    scaled(case, most)
}

/// Lowers the deadline of one admitted task (and its period, if they are the same) to the least
/// that `admission` admits.
pub fn tighten_one(case: &mut Case, place: usize, admission: Admission) {
    let (period, deadline) = (case.tasks[place].period, case.tasks[place].deadline);
    let set = |case: &mut Case, to: i64| {
        let task = &mut case.tasks[place];
        task.deadline = to;
        task.period = if period == deadline { to } else { period };
        case.admitted(admission)
    };
    let (mut refused, mut admitted) = (case.tasks[place].wcet - 1, deadline);
    while admitted - refused > 1 {
        let middle = i64::midpoint(refused, admitted);
        if set(case, middle) {
            admitted = middle;
        } else {
            refused = middle;
        }
    }
    set(case, admitted);
}
