//! Runs that a stalled host kept from showing anything: repeated, counted, and a failure in the end.

use std::io::{self, Write};

use anyhow::{Result, bail};

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
