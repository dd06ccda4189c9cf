//! Lines by which tests say that they skip or cannot judge. nextest hides the output of tests that pass, so they are read
//! from its JUnit report.

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The report as .config/nextest.toml names it; nextest keeps it here even with another target folder.
const REPORT: &str = "target/nextest/default/junit.xml";

/// Words of which such a line has one.
pub(crate) const WORDS: [&str; 2] = ["SKIPPED", "UNJUDGED"];

/// Prints these lines of the last run.
pub(crate) fn tell(workspace: &Workspace) -> Result<()> {
    let path = workspace.root().join(REPORT);
    let report = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for line in left_out(&report) {
        eprintln!("{line}");
    }
    Ok(())
}

/// These lines in `report`, with XML's entities resolved.
fn left_out(report: &str) -> impl Iterator<Item = String> {
    let lines = report.lines().filter_map(|line| {
        let start = WORDS.iter().find_map(|word| line.find(word))?;
        Some(line[start..].split("</").next().unwrap_or_default())
    });
    lines.map(|line| {
        let line = line.replace("&quot;", "\"").replace("&apos;", "'");
        line.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_that_leaves_something_out_is_found_as_it_was_written() {
        let report = "<testcase name=\"a\">\n<system-err>SKIPPED a: needs &lt;root&gt; &amp; &quot;bpf&quot;\n\
            running\n</system-err><system-err>UNJUDGED: b: run 1 of 3</system-err>\n</testcase>\n";
        let found: Vec<_> = left_out(report).collect();
        assert_eq!(
            found,
            [
                "SKIPPED a: needs <root> & \"bpf\"",
                "UNJUDGED: b: run 1 of 3"
            ]
        );
    }
}
