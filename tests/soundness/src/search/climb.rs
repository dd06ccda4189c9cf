//! Hill climbing on lateness.

use rtswap_policy::assign::Objective;
use rtswap_simulator::{Rng, SimError};

use super::{Kind, draw, mutate, tighten, tighten_one};
use crate::case::Case;
use crate::model::{Engine, Outcome, Rules};
use crate::real;
use crate::verdict::Admission;

/// What is attacked: these rules under this test, with cases of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The rules that the model follows.
    pub rules: Rules,
    /// The test at whose edge the sets are kept.
    pub admission: Admission,
    /// The cases.
    pub kind: Kind,
}

/// An admitted case with a late job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// It.
    pub case: Case,
    /// What came of it.
    pub outcome: Outcome,
}

/// What runs the cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The model.
    #[default]
    Model,
    /// The scheduler, with sets that its own test admits.
    Real,
}

/// Climbs; keeps its memory from one climb to the next and counts what it ran.
#[derive(Debug, Default)]
pub struct Hunter {
    driver: Driver,
    engine: Engine,
    instants: Vec<i64>,
    /// Cases run.
    pub runs: u64,
    /// Realtime jobs that completed in them.
    pub jobs: u64,
    /// Runs that could not be made, because somebody could not load.
    pub skipped: u64,
    /// The first run in which memory moved for ever.
    pub endless: Option<Case>,
    /// Runs in which a death took memory that the plan counted on: their misses do not count.
    pub voided: u64,
    /// How many runs broke an invariant or a promise of the scheduler.
    pub violations: u64,
    /// The first of them: what was broken, and the case.
    pub violation: Option<(String, Case)>,
}

/// Without a better case for so many runs a climb starts anew.
const PATIENCE: u32 = 300;

/// A longer period is as good as never, and takes for ever to simulate beside best-effort.
const LONGEST: i64 = 1_000_000;

impl Goal {
    /// What comes of `case`.
    pub fn outcome(&self, engine: &mut Engine, case: &Case) -> Outcome {
        let union_passes =
            case.change.is_some() && self.admission.admits(&case.platform(), &case.union());
        engine.run(case, &self.rules, union_passes)
    }

    /// What comes of `case` if it is admitted and late.
    pub fn misses(&self, engine: &mut Engine, case: &Case) -> Option<Outcome> {
        if (case.tasks.len() as u64) < self.kind.least || !case.admitted(self.admission) {
            return None;
        }
        let outcome = self.outcome(engine, case);
        (outcome.jobs > 0 && outcome.lateness > 0).then_some(outcome)
    }
}

impl Hunter {
    /// Runs its cases on `driver`.
    pub fn on(driver: Driver) -> Self {
        Self {
            driver,
            ..Self::default()
        }
    }

    /// One climb of at most `runs` runs from `seed`, until a job is late.
    pub fn climb(&mut self, goal: &Goal, seed: u64, runs: u64) -> Option<Found> {
        let mut rng = Rng::new(seed);
        let by_ratio = rng.within(0, 2) > 0;
        let score = |outcome: &Outcome| {
            if by_ratio {
                outcome.ratio
            } else {
                outcome.lateness
            }
        };
        let mut left = runs;
        while left > 0 {
            let mut best = draw(&mut rng, goal.kind);
            if !tighten(&mut best, goal.admission) {
                left -= 1;
                continue;
            }
            let mut outcome = self.run(goal, &best);
            let mut instants = self.instants.clone();
            let mut without = 0;
            while left > 0 && without < PATIENCE {
                left -= 1;
                without += 1;
                if outcome.jobs > 0 && outcome.lateness > 0 {
                    return Some(Found {
                        case: best,
                        outcome,
                    });
                }
                let mut next = best.clone();
                mutate(&mut next, &mut rng, goal.kind, &instants);
                if !to_edge(goal, &mut next, &mut rng) {
                    continue;
                }
                let came = self.run(goal, &next);
                if score(&came) >= score(&outcome) {
                    if score(&came) > score(&outcome) {
                        without = 0;
                    }
                    best = next;
                    outcome = came;
                    instants.clone_from(&self.instants);
                }
            }
        }
        None
    }

    /// Runs `case` and counts it.
    pub fn run(&mut self, goal: &Goal, case: &Case) -> Outcome {
        self.runs += 1;
        let outcome = match self.driver {
            Driver::Model => {
                let outcome = goal.outcome(&mut self.engine, case);
                self.instants.clone_from(&self.engine.instants);
                if outcome.stuck {
                    self.broken("the model is stuck".into(), case);
                }
                outcome
            }
            Driver::Real => self.run_real(goal, case),
        };
        self.jobs += outcome.jobs as u64;
        outcome
    }

    fn broken(&mut self, what: String, case: &Case) {
        self.violations += 1;
        self.violation.get_or_insert_with(|| (what, case.clone()));
    }

    fn run_real(&mut self, goal: &Goal, case: &Case) -> Outcome {
        let Admission::Sound(test) = goal.admission else {
            return Outcome::default();
        };
        let objective = match case.jobs() % 4 {
            0 => Objective::Volume,
            _ => Objective::Time,
        };
        let scenario = real::scenario(case, test, objective, 1);
        match real::run(&scenario) {
            Ok(run) => {
                if let Some(broken) = run.broken.into_iter().next() {
                    self.broken(broken, case);
                }
                self.instants = run.instants;
                if run.endless {
                    self.skipped += 1;
                    self.endless.get_or_insert_with(|| case.clone());
                    return Outcome::default();
                }
                if run.voided {
                    self.voided += 1;
                    return Outcome::default();
                }
                run.outcome
            }
            Err(SimError::Stuck { .. } | SimError::OutOfMemory { .. }) => {
                self.skipped += 1;
                Outcome::default()
            }
            Err(error) => {
                self.broken(error.to_string(), case);
                Outcome::default()
            }
        }
    }
}

/// Moves a case to the edge of the test, in all its periods or in one deadline alone. False if it
/// has none, or one period is out of all proportion.
fn to_edge(goal: &Goal, case: &mut Case, rng: &mut Rng) -> bool {
    let one = rng.within(0, 2) == 0;
    if one && case.admitted(goal.admission) {
        let place = rng.within(0, case.tasks.len() as u64 - 1) as usize;
        tighten_one(case, place, goal.admission);
        return true;
    }
    tighten(case, goal.admission) && case.tasks.iter().all(|task| task.period <= LONGEST)
}
