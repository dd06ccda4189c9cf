//! What is told in the end.

use serde::Serialize;

/// All attacks.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    /// One after the other, as they were made.
    pub attacks: Vec<Outcome>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            version: 1,
            attacks: Vec::new(),
        }
    }
}

/// Whether a promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// None was.
    Held,
    /// One was.
    Broken,
}

/// One attack and what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// The attack.
    pub name: &'static str,
    /// What came of it.
    pub result: Verdict,
    /// The 99th percentile of the victim's wait for a grant, over that beside as many idle burners.
    pub victim_p99_ratio: f64,
    /// Deadlines that the victims missed.
    pub misses: u64,
    /// What was broken, all of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Lateness of the victims was all that was broken, or that the best-effort one was killed for it.
    #[serde(skip)]
    pub is_only_late: bool,
    /// All that was broken is lateness and what follows from it, and the victims had missed deadlines beside burners too, where
    /// nobody attacked them.
    #[serde(skip)]
    pub is_unjudged: bool,
}

impl Outcome {
    /// Whether the host may have broken what was broken.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_only_late || self.is_unjudged
    }

    /// One line for whoever waits.
    pub(crate) fn line(&self) -> String {
        let result = match self.result {
            Verdict::Held => "held",
            Verdict::Broken => "BROKEN",
        };
        let Self {
            name,
            victim_p99_ratio,
            misses,
            reasons,
            ..
        } = self;
        let reasons = reasons.join("; ");
        format!("{name:28} {result:6}  p99 × {victim_p99_ratio:.2}  {misses} missed  {reasons}")
            .trim_end()
            .to_owned()
    }
}

impl Report {
    /// How many were broken.
    pub(crate) fn broken(&self) -> usize {
        let attacks = self.attacks.iter();
        attacks.filter(|one| one.result == Verdict::Broken).count()
    }

    /// A line for each attack.
    pub(crate) fn text(&self) -> String {
        let lines = self.attacks.iter().map(|one| one.line() + "\n");
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(result: Verdict) -> Outcome {
        Outcome {
            name: "hello-truncated",
            is_only_late: false,
            is_unjudged: false,
            result,
            victim_p99_ratio: 1.25,
            misses: 0,
            reasons: Vec::new(),
        }
    }

    #[test]
    fn the_json_is_as_documented() {
        let report = Report {
            attacks: vec![outcome(Verdict::Held), outcome(Verdict::Broken)],
            ..Report::default()
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(
            json["attacks"][0],
            serde_json::json!({
                "name": "hello-truncated", "result": "held", "victim_p99_ratio": 1.25, "misses": 0
            })
        );
        assert_eq!(json["attacks"][1]["result"], "broken");
        assert_eq!(report.broken(), 1);
    }
}
