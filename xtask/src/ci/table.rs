//! The results of all steps as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use super::step::Ended;

/// One line per step with its seconds and its number of checks, then what was skipped or not judged.
pub(crate) fn text(ended: &[Ended], total: Duration) -> String {
    let width = ended.iter().map(|end| end.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}  seconds  what was counted\n", "step");
    for end in ended {
        let counted = match &end.outcome {
            Ok(counted) => counted.clone(),
            Err(why) => format!("FAILED: {why}"),
        };
        let line = format!(
            "{:width$}  {:7.0}  {counted}",
            end.name,
            end.took.as_secs_f64()
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(
        text,
        "{:width$}  {:7.0}  side by side where they do not disturb each other",
        "all",
        total.as_secs_f64()
    );
    for end in ended {
        for skip in &end.skips {
            let _ = writeln!(text, "left out in {}: {skip}", end.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_and_what_was_left_out_are_told() {
        let end = |name, outcome, skips: &[&str]| Ended {
            name,
            took: Duration::from_millis(1_600),
            outcome,
            skips: skips.iter().map(ToString::to_string).collect(),
        };
        let ended = [
            end("test", Ok("9 passed".to_owned()), &["SKIPPED x: no root"]),
            end("demo", Err("1 miss".to_owned()), &[]),
        ];
        let text = text(&ended, Duration::from_secs(3));
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            [
                "test        2  9 passed",
                "demo        2  FAILED: 1 miss",
                "all         3  side by side where they do not disturb each other",
                "left out in test: SKIPPED x: no root",
            ]
        );
    }
}
