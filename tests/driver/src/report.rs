//! What a check found, as it is printed.

use std::fmt;

use serde::Serialize;

use crate::version::NEWEST_KNOWN;

/// One check of one library.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// The library: its version, or `simgpu`.
    pub library: String,
    /// What was checked.
    pub check: &'static str,
    /// Counts, each with what it counts.
    pub counts: Vec<(usize, &'static str)>,
    /// Undecided names, unexplained differences, and whatever else must not be.
    pub faults: Vec<String>,
    /// What would be faults, of a library that is newer than what it is held against.
    pub unjudged: Vec<String>,
    /// Why nothing was checked.
    pub skipped: Option<String>,
}

impl Row {
    /// A check of a library, with nothing found yet.
    pub fn new(library: &str, check: &'static str) -> Self {
        Self {
            library: library.to_owned(),
            check,
            ..Self::default()
        }
    }

    /// With a count.
    #[must_use]
    pub fn count(mut self, number: usize, of: &'static str) -> Self {
        self.counts.push((number, of));
        self
    }

    /// With what must not be.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = String>) -> Self {
        self.faults.extend(faults);
        self
    }

    /// With no faults: what was found is not judged.
    #[must_use]
    pub fn unjudged(mut self) -> Self {
        self.unjudged.append(&mut self.faults);
        self
    }

    /// A check that could not be made.
    pub fn skipped(library: &str, check: &'static str, why: impl Into<String>) -> Self {
        let mut row = Self::new(library, check);
        row.skipped = Some(why.into());
        row
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12} {:22} ", self.library, self.check)?;
        if let Some(why) = &self.skipped {
            return write!(f, "SKIPPED: {why}");
        }
        let counts = self.counts.iter();
        let counts: Vec<_> = counts
            .map(|(number, of)| format!("{number} {of}"))
            .collect();
        f.write_str(&counts.join(", "))?;
        if !self.unjudged.is_empty() {
            let number = self.unjudged.len();
            write!(
                f,
                "; UNJUDGED, newer than branch {NEWEST_KNOWN}: {number}, listed below"
            )?;
        }
        for fault in self.faults.iter().chain(&self.unjudged) {
            write!(f, "\n    {fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_counts_and_below_them_its_faults() {
        let row = Row::new("550.163.01", "names")
            .count(3, "names")
            .count(1, "undecided");
        let text = row.faults(["cuA".to_owned()]).to_string();
        assert!(text.ends_with("3 names, 1 undecided\n    cuA"), "{text}");
        let row = Row::new("999.1", "names").count(1, "names");
        let row = row.faults(["cuB".to_owned()]).unjudged();
        assert!(row.faults.is_empty());
        let text = row.to_string();
        let (first, list) = text.split_once('\n').unwrap();
        assert!(first.contains("1 names; UNJUDGED"), "{text}");
        assert_eq!(list, "    cuB");
        let text = Row::skipped("simgpu", "codes", "no network").to_string();
        assert!(text.ends_with("SKIPPED: no network"), "{text}");
    }
}
