//! All probes, some at a time, each with a bound.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::build::Programs;
use crate::check::{self, Missing, Outcome};
use crate::stage::Stage;
use crate::table::Probe;
use crate::under;

/// What came of one probe.
pub struct Tried {
    /// The probe.
    pub probe: &'static Probe,
    /// The outcome.
    pub outcome: Outcome,
    /// Why, where it was missed.
    pub reason: String,
    /// How long it took.
    pub took: Duration,
}

impl Tried {
    /// Whether it is what the table expects.
    pub fn is_as_expected(&self) -> bool {
        self.outcome == self.probe.expected || self.outcome == Outcome::Skipped
    }
}

/// Tries `probes`, `at_once` at a time, under the command `under` if it names one, and gives what
/// came of each in their order.
pub fn run(
    probes: &[&'static Probe],
    programs: &Programs,
    at_once: usize,
    under: &[String],
) -> Vec<Tried> {
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&probe) = probes.get(index) else {
                        return;
                    };
                    let one = try_one(probe, programs, under);
                    let mut tried = tried.lock().expect("another probe's thread panicked");
                    tried.push((index, one));
                }
            });
        }
    });
    let mut tried = tried.into_inner().expect("a probe's thread panicked");
    tried.sort_by_key(|(index, _)| *index);
    tried.into_iter().map(|(_, tried)| tried).collect()
}

fn try_one(probe: &'static Probe, programs: &Programs, under: &[String]) -> Tried {
    let start = Instant::now();
    let outcome: Result<Outcome> = match under::hindrance(probe).filter(|_| !under.is_empty()) {
        Some(why) => Err(Missing(why.into()).into()),
        None => Stage::new(programs, under, probe.gpus).and_then(|stage| check::run(&stage, probe)),
    };
    let (outcome, reason) = match outcome {
        Ok(outcome) => (outcome, String::new()),
        Err(error) if error.is::<Missing>() => (Outcome::Skipped, error.to_string()),
        Err(error) => (Outcome::Missed, format!("{error:#}")),
    };
    Tried {
        probe,
        outcome,
        reason,
        took: start.elapsed(),
    }
}
