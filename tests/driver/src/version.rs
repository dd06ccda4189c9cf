//! Versions of the driver: `550.163.01`, of branch 550.

use std::fmt;

/// The newest branch that the tables, the reasons and the simulated driver were written for. What is found in libraries up to
/// it is a fault; of later branches it is printed as UNJUDGED, whatever Debian has meanwhile.
///
/// To raise it: fetch a library of the branch, do what CONTRIBUTING.md says of each line of the UNJUDGED rows, then put the
/// branch here and into tests/probes/tests/drivers.rs. From then on the same rows judge it.
pub const NEWEST_KNOWN: u32 = 555;

/// A version, ordered by its numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// Reads `550.163.01`; `None` where a part is no number or there is but one.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() > 1)?;
        Some(Self {
            numbers,
            text: text.to_owned(),
        })
    }

    /// The number of its branch, such as 550.
    pub fn branch(&self) -> u32 {
        self.numbers[0]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("550.54.15") < version("550.163.01"));
        assert!(version("470.256.02") < version("550.54.15"));
        assert_eq!(version("550.163.01").to_string(), "550.163.01");
        assert_eq!(version("550.163.01").branch(), 550);
    }

    #[test]
    fn the_tests_of_the_probes_know_the_same_branches() {
        let text = include_str!("../../probes/tests/drivers.rs");
        assert!(text.contains(&format!("const NEWEST_KNOWN: u32 = {NEWEST_KNOWN};")));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "550", "550.x", "1:550.1", "apt"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
