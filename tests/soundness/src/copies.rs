//! Random sets that mix copies inside jobs with swaps between jobs.
//!
//! With C as long as engines are loaded nothing may miss. With C as long as engines are idle something must: otherwise the
//! sets would not show that the copy engines are shared.

mod draw;

use std::sync::{Mutex, PoisonError};

use rtswap_policy::admission::Test;
use rtswap_simulator::{Execution, Rng, SimError};
use serde::Serialize;

use crate::attack::{Effort, mixed, parallel};
use crate::real;
use draw::{CopySet, draw};

/// For which time of a script C is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// With half of each copy engine, and both slowed by each other: sound.
    Loaded,
    /// With the copy engines for itself: refuted.
    Idle,
}

/// What came of the sets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// Sets drawn.
    pub sets: u64,
    /// Those of which the scheduler admitted every task. Of the others a task that arrives was refused, or no periods in
    /// proportion pass the test.
    pub admitted: u64,
    /// Those that could not be loaded, in which best-effort swapped for ever, or in which a death took memory that the plan
    /// counted on. Nothing is promised then, and they are not among the admitted.
    pub skipped: u64,
    /// Jobs with a deadline that completed.
    pub jobs: u64,
    /// Of `jobs`, those that copied while they ran.
    pub copying: u64,
    /// Of `copying`, those that ran longer than with idle engines, because memory of other tasks moved meanwhile.
    pub slowed: u64,
    /// Jobs that ended after their deadline.
    pub misses: u64,
    /// Broken invariants and promises; a job beyond an idle C is none.
    pub violations: u64,
    /// The set of the lowest number with a miss, in words.
    pub miss: Option<String>,
    /// The same for a violation.
    pub violation: Option<String>,
}

/// Draws `sets` sets and runs those that are admitted. One third each is for every admission test.
pub fn search(sets: u64, engines: Engines, effort: Effort) -> Tally {
    /// Sets of one unit of work.
    const EACH: u64 = 64;
    let units = sets.div_ceil(EACH);
    let tallies = Mutex::new(vec![Tally::default(); units as usize]);
    parallel(units as usize, effort, |unit| {
        let mut tally = Tally::default();
        let from = unit as u64 * EACH;
        for number in from..sets.min(from + EACH) {
            tally.run(effort.seed, number, engines);
        }
        let mut tallies = tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies[unit] = tally;
    });
    let tallies = tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
    tallies.into_iter().fold(Tally::default(), Tally::and)
}

impl Tally {
    fn and(self, next: Self) -> Self {
        Self {
            sets: self.sets + next.sets,
            admitted: self.admitted + next.admitted,
            skipped: self.skipped + next.skipped,
            jobs: self.jobs + next.jobs,
            copying: self.copying + next.copying,
            slowed: self.slowed + next.slowed,
            misses: self.misses + next.misses,
            violations: self.violations + next.violations,
            miss: self.miss.or(next.miss),
            violation: self.violation.or(next.violation),
        }
    }

    fn run(&mut self, seed: u64, number: u64, engines: Engines) {
        let tests = [Test::Theorem1, Test::Demand, Test::Pipelined];
        let test = tests[(number % 3) as usize];
        self.sets += 1;
        let mut rng = Rng::new(mixed(seed, number, 0));
        let Some(set) = draw(&mut rng, test, engines) else {
            return;
        };
        let run = match real::run(&set.scenario(test)) {
            Ok(run) if !run.endless && !run.voided => run,
            Ok(_) | Err(SimError::Stuck { .. } | SimError::OutOfMemory { .. }) => {
                self.skipped += 1;
                return;
            }
            Err(error) => return self.break_promise(number, &error.to_string(), &set),
        };
        if engines == Engines::Loaded
            && let Some(broken) = run.broken.first()
        {
            self.break_promise(number, broken, &set);
        }
        self.admitted += u64::from(run.refused.is_empty());
        self.jobs += run.finished.len() as u64;
        let alone = set.scripts.iter();
        let alone: Vec<_> = alone.map(|script| script.as_ref()?.idle()).collect();
        for job in &run.finished {
            let due = set.case.tasks[job.task].deadline;
            let response = job.end - job.eligible;
            if let Some(span) = alone[job.task] {
                self.copying += 1;
                self.slowed += u64::from(job.end - job.granted > span.0.cast_signed());
            }
            self.misses += u64::from(response > due);
            if response > due && self.miss.is_none() {
                let what = format!("task {}: response {response} for D = {due}", job.task);
                self.miss = Some(set.describe(number, &what));
            }
        }
    }

    fn break_promise(&mut self, number: u64, what: &str, set: &CopySet) {
        self.violations += 1;
        self.violation
            .get_or_insert_with(|| set.describe(number, what));
    }
}

impl CopySet {
    fn scenario(&self, test: Test) -> rtswap_simulator::Scenario {
        let mut scenario = real::scenario(&self.case, test, self.objective, 1);
        for (sim, script) in scenario.tasks.iter_mut().zip(&self.scripts) {
            if let Some(script) = script {
                sim.execution = Execution::Copies(script.clone());
            }
        }
        scenario
    }

    fn describe(&self, number: u64, what: &str) -> String {
        let (case, scripts) = (&self.case, &self.scripts);
        format!("set {number}, {what}\n{case:?}\n{scripts:?}")
    }
}
