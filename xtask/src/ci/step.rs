//! One check. It runs in a process of its own; its output goes to a file and is shown when the process ends.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::test::skips::WORDS;
use crate::workspace::Workspace;

use super::environment::CleanEnvironment;

/// A named check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) job: fn(&Workspace) -> Result<()>,
    /// Text that marks the line with the number of checks. A step without such a line has failed.
    counts: Option<&'static str>,
}

/// The result of a step.
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    /// The line with the number of checks, or why the step failed.
    pub(crate) outcome: Result<String, String>,
    /// Lines that say what was skipped or not judged, and why.
    pub(crate) skips: Vec<String>,
}

impl Ended {
    pub(crate) fn is_failed(&self) -> bool {
        self.outcome.is_err()
    }
}

impl Step {
    /// A step without a number of checks.
    pub(crate) const fn new(name: &'static str, job: fn(&Workspace) -> Result<()>) -> Self {
        Self {
            name,
            job,
            counts: None,
        }
    }

    /// Takes the last line that contains `marker` as the number of checks.
    pub(crate) const fn counting(mut self, marker: &'static str) -> Self {
        self.counts = Some(marker);
        self
    }

    /// Runs the step in the repository at `root` and shows its output.
    pub(crate) fn run(&self, root: &Path, clean: &CleanEnvironment, low_priority: bool) -> Ended {
        eprintln!("== {} begins", self.name);
        let start = Instant::now();
        let said = self.start(root, clean, low_priority);
        let took = start.elapsed();
        let (text, outcome) = match said {
            Ok((text, true)) => {
                let outcome = self.count(&text);
                (text, outcome)
            }
            Ok((text, false)) => (text, Err(failure(clean.room().ok()))),
            Err(error) => (String::new(), Err(format!("{error:#}"))),
        };
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        // One call, so that the output of another lane does not get in between.
        eprintln!(
            "{text}== {}: {verdict}, {:.0} s",
            self.name,
            took.as_secs_f64()
        );
        Ended {
            name: self.name,
            took,
            outcome,
            skips: skips(&text),
        }
    }

    /// The output, and whether the process exited with 0.
    fn start(
        &self,
        root: &Path,
        clean: &CleanEnvironment,
        low_priority: bool,
    ) -> Result<(String, bool)> {
        let path = clean.log_path(self.name);
        let log = File::create(&path).with_context(|| path.display().to_string())?;
        let mut command = clean.command(low_priority)?;
        let status = command
            .args(["ci-step", self.name])
            .current_dir(root)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .context("cannot start it")?;
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Ok((text, status.success()))
    }

    fn count(&self, text: &str) -> Result<String, String> {
        let Some(marker) = self.counts else {
            return Ok(String::new());
        };
        let counted = text.lines().rev().find(|line| line.contains(marker));
        match counted {
            Some(line) => Ok(line.trim().to_owned()),
            // The step said why there was nothing to count.
            None if !skips(text).is_empty() => Ok(String::new()),
            None => Err(format!("no line with {marker:?}: nothing was counted")),
        }
    }
}

/// Why a step failed that says so itself. Few programs name a full file system as the cause: with less than 1 GiB of
/// `room` (bytes left in the target folder) it is named here.
fn failure(room: Option<u64>) -> String {
    match room.map(|bytes| bytes >> 20) {
        Some(room @ ..1024) => format!(
            "failed, see above; the target folder's file system is almost full: {room} MiB left"
        ),
        _ => "failed, see above".to_owned(),
    }
}

/// The lines of `text` that say what was skipped or not judged.
fn skips(text: &str) -> Vec<String> {
    let says = |line: &&str| WORDS.iter().any(|word| line.contains(word));
    let mut found: Vec<String> = text
        .lines()
        .filter(says)
        .map(|line| line.trim().to_owned())
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_is_shown() {
        let step = Step::new("a", super::super::build).counting(" passed, ");
        let text = "1 passed, 0 failed\nmore\n  3 passed, 0 failed\nend\n";
        assert_eq!(step.count(text).unwrap(), "3 passed, 0 failed");
        assert_eq!(Step::new("a", super::super::build).count("").unwrap(), "");
    }

    #[test]
    fn a_full_file_system_is_named() {
        let said = failure(Some(3 << 20));
        assert!(said.ends_with("almost full: 3 MiB left"), "{said}");
        for room in [Some(1 << 30), None] {
            assert_eq!(failure(room), "failed, see above");
        }
    }

    #[test]
    fn a_step_that_counts_nothing_fails_unless_it_says_that_it_skips() {
        let step = Step::new("a", super::super::build).counting(" passed, ");
        assert!(step.count("all is well\n").is_err());
        let said = "xtask clients: SKIPPED, nothing was checked: no python3\n";
        assert_eq!(step.count(said).unwrap(), "");
        assert_eq!(skips(said).len(), 1);
        assert_eq!(skips("UNJUDGED: demo: run 1 of 3\n").len(), 1);
    }
}
