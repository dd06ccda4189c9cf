//! Attacks as a whole: the sound rules, unit by unit on as many threads as wished with the same
//! result, and the refuted ones.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rtswap_policy::admission::Test;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::model::Engine;
use crate::refuted::{ALL, Refuted, sound};
use crate::search::{Driver, Found, Goal, Hunter, Kind, shrink};

/// Runs of one climb at most.
const RUNS: u64 = 2_000;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// No new climb after this.
    pub until: Option<Instant>,
}

/// What was done on one kind of cases under one test.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Count {
    /// The test.
    pub test: &'static str,
    /// The kind in words.
    pub kind: String,
    /// Climbs.
    pub climbs: u64,
    /// Cases run.
    pub runs: u64,
    /// Realtime jobs completed.
    pub jobs: u64,
    /// Cases that somebody could not load in, or that had no end.
    pub skipped: u64,
    /// One in which memory moved for ever, and which is skipped too.
    pub endless: Option<Case>,
    /// Cases in which a death took memory that the plan counted on.
    pub voided: u64,
    /// Broken invariants and promises.
    pub violations: u64,
    /// Climbs that found a miss.
    pub misses: u64,
    /// The first violation, its case as small as it gets.
    pub violation: Option<(String, Case)>,
    /// The first miss, as small as it gets.
    pub miss: Option<Counterexample>,
}

/// An admitted case with a late job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counterexample {
    /// The rule that it refutes.
    pub rule: String,
    /// D of the late job.
    pub deadline: i64,
    /// Its response.
    pub response: i64,
    /// The set and its jobs.
    pub case: Case,
}

/// How a refuted rule was refuted.
#[derive(Clone, Debug, Serialize)]
pub struct Refutation {
    /// The rule.
    pub rule: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Climbs until a miss was found, or all.
    pub climbs: u64,
    /// Runs until then.
    pub runs: u64,
    /// The counterexample, if one was found.
    pub found: Option<Counterexample>,
}

/// Every combination of what a set can have.
fn kinds() -> Vec<Kind> {
    (0..16)
        .map(|bits| Kind {
            constrained: bits & 1 != 0,
            base: bits & 2 != 0,
            best_effort: bits & 4 != 0,
            change: bits & 8 != 0,
            ..Kind::PLAIN
        })
        .collect()
}

fn describe(kind: Kind) -> String {
    let words = [
        (kind.constrained, "D<T"),
        (kind.base, "bases"),
        (kind.best_effort, "best-effort"),
        (kind.change, "change"),
    ];
    let said: Vec<&str> = words
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    if said.is_empty() {
        "plain".into()
    } else {
        said.join(" ")
    }
}

/// Climbs against the sound rules until each kind under each of `tests` has had its share of
/// `runs`, or of `climbs`.
pub fn attack(
    driver: Driver,
    tests: &[Test],
    runs: u64,
    climbs: u64,
    effort: Effort,
) -> Vec<Count> {
    let goals: Vec<Goal> = tests
        .iter()
        .flat_map(|test| kinds().into_iter().map(|kind| sound(*test, kind)))
        .collect();
    let names = tests
        .iter()
        .flat_map(|test| vec![test.name(); kinds().len()]);
    let counts: Vec<Count> = names
        .zip(&goals)
        .map(|(test, goal)| Count {
            test,
            kind: describe(goal.kind),
            ..Count::default()
        })
        .collect();
    // Each kind has four units at least: three climb and one only draws.
    let each = (runs / (4 * goals.len() as u64)).clamp(1, RUNS);
    let units = climbs.max(runs.div_ceil(each)) as usize;
    let counts = Mutex::new(counts);
    parallel(units, effort, |unit| {
        let place = unit % goals.len();
        let goal = &goals[place];
        let mut hunter = Hunter::on(driver);
        let mut first: Option<Found> = None;
        let (mut climbs, mut misses) = (0, 0);
        while hunter.runs < each {
            let seed = mixed(effort.seed, unit as u64, climbs);
            // Some units only draw, the others climb.
            let most = if unit / goals.len() % 4 == 3 {
                1
            } else {
                each - hunter.runs
            };
            let found = hunter.climb(goal, seed, most);
            climbs += 1;
            misses += u64::from(found.is_some());
            first = first.or(found);
        }
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut counts[place];
        count.climbs += climbs;
        count.runs += hunter.runs;
        count.jobs += hunter.jobs;
        count.skipped += hunter.skipped;
        count.voided += hunter.voided;
        count.endless = count.endless.take().or(hunter.endless);
        count.violations += hunter.violations;
        count.misses += misses;
        if count.violation.is_none() {
            let first = hunter.violation;
            count.violation = first.map(|(what, case)| small_violation(goal, driver, &what, &case));
        }
        if count.miss.is_none()
            && let Some(found) = first
        {
            count.miss = Some(small(goal, driver, &found.case, false));
        }
    });
    counts.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Climbs against each rule of `rules` until it is refuted, `climbs` times at most.
pub fn refute(rules: &[Refuted], climbs: u64, effort: Effort) -> Vec<Refutation> {
    let results = Mutex::new(vec![None; rules.len()]);
    parallel(rules.len(), effort, |place| {
        let rule = &rules[place];
        let mut hunter = Hunter::default();
        let mut done = 0;
        let mut found = None;
        while found.is_none() && done < climbs {
            if effort.until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            let seed = mixed(effort.seed, place as u64, done);
            found = hunter.climb(&rule.goal, seed, RUNS);
            done += 1;
        }
        let refutation = Refutation {
            rule: rule.name,
            says: rule.says,
            climbs: done,
            runs: hunter.runs,
            found: found.map(|found| Counterexample {
                rule: rule.name.into(),
                ..small(&rule.goal, Driver::Model, &found.case, false)
            }),
        };
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results[place] = Some(refutation);
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}

/// The smallest of what several climbs find for one rule.
pub fn smallest(rule: &Refuted, climbs: u64, effort: Effort) -> Option<Counterexample> {
    /// By size, and then the first.
    type Best = ((usize, usize, i64), u64, Counterexample);
    let best: Mutex<Option<Best>> = Mutex::new(None);
    parallel(climbs as usize, effort, |climb| {
        let mut hunter = Hunter::default();
        let seed = mixed(effort.seed, u64::MAX, climb as u64);
        let Some(found) = hunter.climb(&rule.goal, seed, RUNS) else {
            return;
        };
        let mut found = small(&rule.goal, Driver::Model, &found.case, false);
        found.rule = rule.name.into();
        let size = crate::search::size(&found.case);
        let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
        let better = |(other, at, _): &(_, u64, _)| (size, climb as u64) < (*other, *at);
        if best.as_ref().is_none_or(better) {
            *best = Some((size, climb as u64, found));
        }
    });
    let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    best.map(|(_, _, found)| Counterexample {
        rule: found.rule,
        ..small(&rule.goal, Driver::Model, &found.case, true)
    })
}

/// The rules whose names are in `names`; all if there are none.
pub fn rules(names: &[String]) -> Vec<Refuted> {
    let named = |rule: &&Refuted| names.is_empty() || names.iter().any(|name| name == rule.name);
    ALL.iter().filter(named).copied().collect()
}

/// How long there is for shrinking one real run.
const PATIENCE: Duration = Duration::from_secs(20);

fn small(goal: &Goal, driver: Driver, case: &Case, thorough: bool) -> Counterexample {
    let mut engine = Engine::default();
    let mut hunter = Hunter::on(driver);
    let until = Instant::now() + PATIENCE;
    let case = shrink(goal.kind, case, thorough, |case| match driver {
        Driver::Model => goal.misses(&mut engine, case).is_some(),
        Driver::Real => {
            Instant::now() < until && case.admitted(goal.admission) && {
                let outcome = hunter.run(goal, case);
                outcome.jobs > 0 && outcome.lateness > 0
            }
        }
    });
    let outcome = hunter.run(goal, &case);
    Counterexample {
        rule: String::new(),
        deadline: outcome.worst.1,
        response: outcome.worst.2,
        case,
    }
}

/// What must stay of a violation while its case is made smaller.
fn gist(what: &str) -> &str {
    what.split(|c: char| c.is_ascii_digit())
        .max_by_key(|part| part.len())
        .unwrap_or(what)
}

fn small_violation(goal: &Goal, driver: Driver, what: &str, case: &Case) -> (String, Case) {
    let until = Instant::now() + PATIENCE;
    let mut latest = what.to_owned();
    let case = shrink(goal.kind, case, false, |case| {
        if Instant::now() > until || !case.admitted(goal.admission) {
            return false;
        }
        let mut hunter = Hunter::on(driver);
        hunter.run(goal, case);
        let Some((said, _)) = hunter.violation else {
            return false;
        };
        let same = gist(&said) == gist(what);
        if same {
            latest = said;
        }
        same
    });
    (latest, case)
}

/// Does `units` units of work on the threads of `effort`, until its time is over.
pub(crate) fn parallel(units: usize, effort: Effort, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..effort.threads.max(1) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let unit = next.fetch_add(1, Ordering::Relaxed);
                    if unit >= units {
                        return;
                    }
                    if effort.until.is_some_and(|until| Instant::now() > until) {
                        over.store(true, Ordering::Relaxed);
                        return;
                    }
                    work(unit);
                }
            });
        }
    });
}

/// A seed of its own for each climb or set.
pub(crate) fn mixed(seed: u64, one: u64, other: u64) -> u64 {
    let mut rng = rtswap_simulator::Rng::new(seed ^ one.rotate_left(32) ^ other.rotate_left(8));
    rng.number()
}
