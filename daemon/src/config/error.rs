//! Errors of the files: the place, and a suggestion.

use std::path::{Path, PathBuf};

/// Why a file is not accepted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum ConfigError {
    /// The file at `path` cannot be read, because of `cause`.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    /// The file at `path` is not valid at `line` and `column`, both counted from 1, the column in
    /// characters. `message` says what is wrong and what to do.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        column: usize,
        message: String,
    },
    /// Another user could have written the file at `path`: `reason` says how, and what to do.
    #[error("{}: refused: {reason}", path.display())]
    Untrusted { path: PathBuf, reason: String },
}

impl ConfigError {
    /// Of the file at `path`, which cannot be read.
    pub(super) fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |cause| Self::Unreadable { path, cause }
    }

    /// Converts serde's `error` about `text`, with the place and a suggestion.
    pub(super) fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self::at(path, text, at, explain(error.message()))
    }

    /// A complaint about the byte `at` of `text`.
    pub(super) fn at(path: &Path, text: &str, at: usize, message: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::Wrong {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

/// Keys that an earlier version had, and what to write instead.
const GONE: [(&str, &str); 1] = [(
    "best_effort_quantum_ms",
    "`swap_share` and `longest_wait_s` in [scheduler] say now how long best-effort turns are",
)];

/// Rewords what serde says of an unknown key, which lists the known ones, and of a table in single brackets.
fn explain(message: &str) -> String {
    let message = message.trim_end();
    if message == "invalid type: map, expected a sequence" {
        return "there may be several of these: write it as [[NAME]]".into();
    }
    let Some(known) = message.strip_prefix("unknown field ") else {
        return message.to_owned();
    };
    let mut words = known.split('`').skip(1).step_by(2);
    let key = words.next().unwrap_or_default();
    let known: Vec<_> = words.collect();
    if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == key) {
        return format!("key `{key}` is gone; {instead}");
    }
    match nearest(key, &known) {
        Some(meant) => format!("unknown key `{key}`; did you mean `{meant}`?"),
        None => format!("unknown key `{key}`; known here: {}", known.join(", ")),
    }
}

/// The known word that `word` was perhaps meant to be.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}
