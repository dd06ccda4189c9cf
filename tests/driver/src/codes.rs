//! What functions return and write where there is no device.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// When a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before cuInit.
    Before,
    /// After a cuInit that failed because there is no device.
    After,
}

impl Phase {
    /// As driver-probe has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// What a function is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Words {
    /// Zeros.
    Zeros,
    /// Places to write to, a word each.
    Places,
}

impl Words {
    /// As driver-probe has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "codes",
            Self::Places => "stores",
        }
    }
}

/// These follow what they are given without a look at whether it is an object: where that leads depends on the address.
const FOLLOWING: [&str; 3] = [
    "cuGraphReleaseUserObject",
    "cuUserObjectRelease",
    "cuUserObjectRetain",
];

/// Those of `names` whose answers mean something.
pub fn asked<'a>(
    names: impl IntoIterator<Item = &'a str>,
    words: Words,
) -> impl Iterator<Item = &'a str> {
    let means_something = move |name: &&str| words == Words::Zeros || !FOLLOWING.contains(name);
    names.into_iter().filter(means_something)
}

/// What cuInit returns where there is no device: CUDA_ERROR_NO_DEVICE.
pub const NO_DEVICE: &str = "100";

/// The answers of one library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    /// What cuInit returned, where it was called first.
    pub init: Option<String>,
    /// A code, or `nothing` or `ARGUMENT:FROM-TO …` for what was written, `absent`, `signal N`, `hang` or `exit N`, by
    /// function.
    pub answers: BTreeMap<String, String>,
}

impl Codes {
    /// Reads what `driver-probe codes` and `stores` print.
    pub fn parse(text: &str) -> Result<Self> {
        let mut codes = Self {
            init: None,
            answers: BTreeMap::new(),
        };
        for line in text.lines() {
            let (name, answer) = line.split_once(' ').with_context(|| format!("{line:?}"))?;
            if name == "init" {
                codes.init = Some(answer.to_owned());
            } else {
                codes.answers.insert(name.to_owned(), answer.to_owned());
            }
        }
        Ok(codes)
    }

    /// Leaves out who followed a place as if it were a handle or a structure of the caller's: where that leads depends on
    /// the address.
    pub fn without_crashes(&mut self) {
        self.answers
            .retain(|_, answer| !answer.starts_with("signal ") && answer != "hang");
    }
}

/// A function that answers otherwise than the real one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub function: String,
    /// The real library's answer.
    pub real: String,
    /// The simulated library's.
    pub simulated: String,
}

/// Where the two differ, by the names that the real one was asked for.
pub fn differences(real: &Codes, simulated: &Codes) -> Vec<Difference> {
    let each = real.answers.iter();
    each.filter_map(|(function, answer)| {
        let other = simulated
            .answers
            .get(function)
            .map_or("absent", String::as_str);
        (other != answer).then(|| Difference {
            function: function.clone(),
            real: answer.clone(),
            simulated: other.to_owned(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_or_is_absent_is_found() {
        let real = Codes::parse("init 100\ncuA 3\ncuB signal 11\ncuC 1\n").unwrap();
        let simulated = Codes::parse("init 100\ncuA 3\ncuB 1\ncuD 3\n").unwrap();
        assert_eq!(real.init.as_deref(), Some(NO_DEVICE));
        let found = differences(&real, &simulated);
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.function.as_str(),
                    one.real.as_str(),
                    one.simulated.as_str(),
                )
            })
            .collect();
        assert_eq!(found, [("cuB", "signal 11", "1"), ("cuC", "1", "absent")]);
        assert!(Codes::parse("cuA\n").is_err());
    }
}
