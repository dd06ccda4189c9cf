//! Runs that a stalled host kept from showing anything: repeated, counted, and a failure in the end.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::stalls::Stalls;

/// What makes a job of some ms late with a period of 100 ms, in any such span.
const STALLED: Duration = Duration::from_millis(40);
const SPAN: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_millis(5);

/// Runs in a row that may stay unjudged, the last of which is a failure.
const ATTEMPTS: u32 = 3;

/// What a run that broke nothing is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that the test asks was seen, and was right.
    Judged,
    /// The host stalled; what was therefore not judged, and by how much it stalled.
    Unjudged(String),
}

/// Repeats `run` of `what` until a verdict is reached. Each run without one is printed past the harness,
/// which hides the output of tests that pass.
///
/// # Errors
///
/// The first error of `run`, at once, or that three runs in a row went unjudged.
pub fn until_judged(what: &str, run: impl FnMut() -> Result<Verdict>) -> Result<()> {
    repeat(what, &mut io::stderr(), run)
}

/// Repeats `run` of `what`, which a stall of some tens of milliseconds can make fail, until it succeeds, or fails
/// although the host did not stall.
///
/// # Errors
///
/// As [`until_judged`].
pub fn unless_stalled(what: &str, mut run: impl FnMut() -> Result<()>) -> Result<()> {
    until_judged(what, || {
        let (result, stalls) = watched(&mut run);
        excuse(result, stalls.worst())
    })
}

/// The verdict on a run with this result, given how late the host was in the worst span.
fn excuse(result: Result<()>, worst: Duration) -> Result<Verdict> {
    match result {
        Ok(()) => Ok(Verdict::Judged),
        Err(error) if worst > STALLED => {
            let error = format!("{error:#}");
            let first = error.lines().next().unwrap_or_default();
            Ok(Verdict::Unjudged(format!("late by {worst:?}: {first}")))
        }
        Err(error) => Err(error),
    }
}

/// What `run` gave, and how late a thread beside it was.
fn watched<T>(run: impl FnOnce() -> T) -> (T, Stalls) {
    let (over, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watcher = scope.spawn(move || {
            let mut stalls = Stalls::new(SPAN);
            loop {
                let start = Instant::now();
                let ended = is_over.recv_timeout(WINDOW);
                stalls.record(start.elapsed().saturating_sub(WINDOW));
                if ended != Err(mpsc::RecvTimeoutError::Timeout) {
                    return stalls;
                }
            }
        });
        let result = run();
        drop(over);
        (result, watcher.join().expect("the watcher ends"))
    })
}

fn repeat(
    what: &str,
    out: &mut impl Write,
    mut run: impl FnMut() -> Result<Verdict>,
) -> Result<()> {
    for attempt in 1..=ATTEMPTS {
        let Verdict::Unjudged(reason) = run()? else {
            return Ok(());
        };
        // Nobody may read it.
        let _ = writeln!(
            out,
            "UNJUDGED: {what}: run {attempt} of {ATTEMPTS}: {reason}"
        );
    }
    bail!("{what}: the host stalled in {ATTEMPTS} runs in a row, so that none could be judged")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of runs with these results, and the number of runs that were made.
    fn judge(results: &[Result<Verdict, &'static str>]) -> (Result<()>, usize) {
        let mut runs = 0;
        let outcome = repeat("a trial", &mut io::sink(), || {
            runs += 1;
            results[runs - 1].clone().map_err(anyhow::Error::msg)
        });
        (outcome, runs)
    }

    fn unjudged() -> Verdict {
        Verdict::Unjudged("late by 200 ms".into())
    }

    #[test]
    fn a_judged_run_is_the_last() {
        let (outcome, runs) = judge(&[Ok(Verdict::Judged)]);
        assert!(outcome.is_ok());
        assert_eq!(runs, 1);
    }

    #[test]
    fn the_third_run_may_be_the_first_to_be_judged() {
        let (outcome, runs) = judge(&[Ok(unjudged()), Ok(unjudged()), Ok(Verdict::Judged)]);
        assert!(outcome.is_ok());
        assert_eq!(runs, 3);
    }

    #[test]
    fn three_unjudged_runs_in_a_row_fail() {
        let (outcome, runs) = judge(&[Ok(unjudged()), Ok(unjudged()), Ok(unjudged())]);
        assert!(outcome.unwrap_err().to_string().contains("3 runs in a row"));
        assert_eq!(runs, 3);
    }

    #[test]
    fn a_failure_is_excused_by_a_stall_alone() {
        let fault = || Err(anyhow::Error::msg("missed\nand more"));
        assert_eq!(excuse(Ok(()), STALLED * 2).unwrap(), Verdict::Judged);
        let unjudged = Verdict::Unjudged("late by 80ms: missed".into());
        assert_eq!(excuse(fault(), STALLED * 2).unwrap(), unjudged);
        assert!(excuse(fault(), STALLED).is_err());
    }

    #[test]
    fn a_watcher_sees_a_run_to_its_end() {
        let (result, stalls) = watched(|| {
            thread::sleep(10 * WINDOW);
            7
        });
        assert_eq!(result, 7);
        assert!(stalls.windows() >= 1);
    }

    #[test]
    fn a_fault_fails_at_once() {
        for before in 0..3 {
            let mut results = vec![Ok(unjudged()); before];
            results.push(Err("a wrong byte"));
            let (outcome, runs) = judge(&results);
            assert_eq!(outcome.unwrap_err().to_string(), "a wrong byte");
            assert_eq!(runs, before + 1);
        }
    }
}
