//! What cuGetProcAddress hands out: each name in each version with each kind of default stream.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

/// Versions of CUDA that are asked for, as 1000·major + 10·minor, and some before the first.
pub const VERSIONS: &[i32] = &[
    0, 1, 1000, 2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050,
    7000, 7050, 8000, 9000, 9010, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040,
    11050, 11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090,
    13000, 13010,
];

/// CU_GET_PROC_ADDRESS_DEFAULT, LEGACY_STREAM and PER_THREAD_DEFAULT_STREAM.
pub const FLAGS: [u64; 3] = [0, 1, 2];

/// What is asked, for each of [`VERSIONS`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// cuGetProcAddress or cuGetProcAddress_v2.
    pub function: String,
    /// The name that is looked up.
    pub name: String,
    /// One of [`FLAGS`].
    pub flags: u64,
}

/// What a library answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// The CUresult.
    pub code: String,
    /// The export whose address was handed out, `null`, `kept` where nothing was written, `?` where no export has it.
    pub export: String,
    /// CUdriverProcAddressQueryResult, or `-` where nothing was written.
    pub status: String,
}

impl Answer {
    /// Whether it hands out a function.
    pub fn is_found(&self) -> bool {
        !matches!(self.export.as_str(), "null" | "kept")
    }

    /// Whether what it hands out, if anything, is exported.
    pub fn is_exported(&self) -> bool {
        self.export != "?"
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.code, self.export, self.status)
    }
}

/// The answers to a question: each with the first of the versions that it holds for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers(Vec<(i32, Answer)>);

impl Answers {
    /// The answer for a version; none before the first that was asked for.
    pub fn at(&self, version: i32) -> Option<&Answer> {
        let runs = self.0.iter();
        let last = runs.take_while(|(since, _)| *since <= version).last();
        last.map(|(_, answer)| answer)
    }
}

impl std::fmt::Display for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs = self.0.iter();
        let runs: Vec<_> = runs
            .map(|(since, answer)| format!("{since}:{answer}"))
            .collect();
        f.write_str(&runs.join(" "))
    }
}

/// The answers of one library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookups {
    /// What cuDriverGetVersion says, as [`VERSIONS`].
    pub driver: i32,
    /// All answers.
    pub answers: BTreeMap<Question, Answers>,
}

impl Lookups {
    /// Reads what `driver-probe lookups` prints.
    pub fn parse(text: &str) -> Result<Self> {
        let mut found = Self {
            driver: 0,
            answers: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(driver) = line.strip_prefix("driver ") {
                found.driver = driver.parse()?;
                continue;
            }
            let (question, answers) = parse(line).with_context(|| format!("{line:?}"))?;
            found.answers.insert(question, answers);
        }
        Ok(found)
    }

    /// The single answers, by question and version.
    pub fn each(&self) -> impl Iterator<Item = (&Question, i32, &Answer)> {
        self.answers.iter().flat_map(|(question, answers)| {
            let at = move |version: &i32| Some((question, *version, answers.at(*version)?));
            VERSIONS.iter().filter_map(at)
        })
    }
}

/// `FUNCTION NAME FLAGS VERSION:CODE/EXPORT/STATUS …`.
fn parse(line: &str) -> Option<(Question, Answers)> {
    let mut fields = line.split(' ');
    let question = Question {
        function: fields.next()?.to_owned(),
        name: fields.next()?.to_owned(),
        flags: fields.next()?.parse().ok()?,
    };
    let runs = fields.map(|field| {
        let (since, answer) = field.split_once(':')?;
        let mut parts = answer.split('/').map(str::to_owned);
        let answer = Answer {
            code: parts.next()?,
            export: parts.next()?,
            status: parts.next()?,
        };
        Some((since.parse().ok()?, answer))
    });
    Some((question, Answers(runs.collect::<Option<_>>()?)))
}

/// A text for each name for which the simulated driver answers otherwise, up to the version of the real one.
pub fn differences(real: &Lookups, simulated: &Lookups) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (question, version, answer) in real.each() {
        let other = simulated.answers.get(question);
        let other = other.and_then(|answers| answers.at(version));
        if version > real.driver || other == Some(answer) {
            continue;
        }
        let Question {
            function,
            name,
            flags,
        } = question;
        let other = other.map_or("no answer".into(), ToString::to_string);
        found.entry(name).or_default().push(format!(
            "{function} {name}, version {version}, flags {flags}: {answer}, simgpu {other}"
        ));
    }
    let each = found.into_values();
    each.map(|shown| format!("{} ({} such answers)", shown[0], shown.len()))
        .collect()
}

/// The names to ask for: the exports, what they are called without a version and a kind of stream, and names that no
/// driver has.
pub fn names<'a>(exports: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::from(["cuNoSuchFunction", "cu", "memcpy"]);
    for export in exports {
        names.extend([export, base(export)]);
    }
    names
}

/// The name that cuda.h's documentation has: `cuMemcpyHtoDAsync` of `cuMemcpyHtoDAsync_v2_ptsz`.
pub fn base(export: &str) -> &str {
    let name = export.trim_end_matches("_ptsz").trim_end_matches("_ptds");
    match name.rsplit_once("_v") {
        Some((base, digits))
            if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookups(lines: &str) -> Lookups {
        Lookups::parse(&format!("driver 12050\n{lines}")).unwrap()
    }

    #[test]
    fn runs_of_versions_are_spread_out() {
        let found = lookups("cuGetProcAddress cuA 2 0:500/kept/- 3020:0/cuA_v2/-\n");
        assert_eq!(found.each().count(), VERSIONS.len());
        let (question, answers) = found.answers.first_key_value().unwrap();
        assert_eq!((question.name.as_str(), question.flags), ("cuA", 2));
        let answer = |version| answers.at(version).unwrap().to_string();
        assert_eq!(answer(3010), "500/kept/-");
        assert_eq!(answer(13000), "0/cuA_v2/-");
        assert_eq!(answers.at(-1), None);
        assert!(Lookups::parse("cuGetProcAddress cuA 0 0:500").is_err());
    }

    #[test]
    fn each_name_that_is_answered_otherwise_is_found_once() {
        let real = lookups(
            "f cuA 0 0:0/null/2 2000:0/cuA/0\nf cuB 0 0:0/null/1\nf cuC 0 0:0/cuC/0 12060:0/cuC_v2/0\n",
        );
        let simulated = lookups("f cuA 0 0:0/null/2\nf cuC 0 0:0/cuC/0\n");
        let found = differences(&real, &simulated);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("f cuA, version 2000, flags 0: 0/cuA/0, simgpu 0/null/2 ("));
        assert!(found[1].contains("simgpu no answer"));
    }

    #[test]
    fn an_address_of_no_export_is_found() {
        let found = lookups("f cuA 0 0:0/?/0\nf cuB 0 0:0/cuB/0\n");
        let strange = found.each().filter(|(_, _, answer)| !answer.is_exported());
        assert_eq!(strange.count(), VERSIONS.len());
    }

    #[test]
    fn names_lose_version_and_stream() {
        for (export, expected) in [
            ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
            ("cuMemcpy_ptds", "cuMemcpy"),
            ("cuCtxCreate_v4", "cuCtxCreate"),
            ("cuInit", "cuInit"),
        ] {
            assert_eq!(base(export), expected);
        }
    }
}
