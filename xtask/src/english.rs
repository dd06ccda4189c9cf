//! Counts what the English of the daemon's code must lose: the lines with "who", "whose" or "whom",
//! and the doc comments of one or two words. Only comments and strings count.

mod prose;

use std::fs;

use anyhow::{Result, ensure};

use crate::house;
use crate::workspace::Workspace;

/// The folders that are read: all of `src` in them.
const ROOMS: [&str; 3] = ["policy", "daemon", "wire"];

/// The most lines with one of [`PRONOUNS`], in all rooms together.
const MOST_PRONOUNS: usize = 29;

/// The most doc comments of [`FEW`] words or less, in all rooms together.
const MOST_SHORT_DOCS: usize = 19;

const PRONOUNS: [&str; 3] = ["who", "whose", "whom"];

/// The words of a doc comment that says too little.
const FEW: usize = 2;

/// The places that were found, each as `file:line: text`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    pronouns: Vec<String>,
    short_docs: Vec<String>,
}

impl Found {
    fn extend(&mut self, other: Self) {
        self.pronouns.extend(other.pronouns);
        self.short_docs.extend(other.short_docs);
    }
}

/// Prints the counts of each room, each place too if `list` says so, and fails where they are too
/// many.
pub(crate) fn check(workspace: &Workspace, list: bool) -> Result<()> {
    let root = workspace.root();
    let listed = house::listed(root, &["*.rs"])?;
    let mut all = Found::default();
    for room in ROOMS {
        let names: Vec<_> = listed.lines().filter(|name| is_in(room, name)).collect();
        ensure!(!names.is_empty(), "no sources in {room}");
        let mut found = Found::default();
        for name in names {
            // One that was deleted and not yet committed is still listed.
            if let Ok(source) = fs::read_to_string(root.join(name)) {
                found.extend(find(name, &source));
            }
        }
        let (pronouns, short_docs) = (found.pronouns.len(), found.short_docs.len());
        println!("{room}: who, whose or whom on {pronouns} lines, {short_docs} short doc comments");
        all.extend(found);
    }
    if list {
        let places = all.pronouns.iter().chain(&all.short_docs);
        places.for_each(|place| println!("{place}"));
    }
    at_most(
        MOST_PRONOUNS,
        all.pronouns.len(),
        "lines with who, whose or whom",
    )?;
    at_most(
        MOST_SHORT_DOCS,
        all.short_docs.len(),
        "doc comments of one or two words",
    )
}

fn at_most(most: usize, count: usize, what: &str) -> Result<()> {
    ensure!(
        count <= most,
        "{count} {what}, at most {most}: `cargo xtask english --list` shows them"
    );
    Ok(())
}

fn is_in(room: &str, name: &str) -> bool {
    let below = name.strip_prefix(room);
    below.is_some_and(|below| below.starts_with('/') && below.contains("/src/"))
}

/// What is found in one source.
fn find(name: &str, source: &str) -> Found {
    let lines = prose::lines(source);
    let mut found = Found::default();
    for (at, line) in lines.iter().enumerate() {
        let is_pronoun = |word: &str| PRONOUNS.iter().any(|it| word.eq_ignore_ascii_case(it));
        let mut words = line
            .prose
            .split(|it: char| !it.is_alphanumeric() && it != '_');
        if words.any(is_pronoun) {
            found.pronouns.push(place(name, at, &line.prose));
        }
    }
    let mut at = 0;
    for block in lines.chunk_by(|one, next| one.doc == next.doc) {
        let text: Vec<_> = block
            .iter()
            .flat_map(|line| line.prose.split_whitespace())
            .collect();
        if block[0].doc.is_some() && (1..=FEW).contains(&text.len()) {
            found.short_docs.push(place(name, at, &text.join(" ")));
        }
        at += block.len();
    }
    found
}

/// Names a line, counted from 0.
fn place(name: &str, at: usize, text: &str) -> String {
    format!("{name}:{}: {}", at + 1, text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pronoun_counts_as_a_whole_word_in_prose() {
        let source =
            "// Who goes, and whose?\nlet who = \"for whom\";\n/// A whole word, who_is\nwho();\n";
        let found = find("a.rs", source);
        assert_eq!(
            found.pronouns,
            ["a.rs:1: Who goes, and whose?", "a.rs:2: for whom"]
        );
        assert_eq!(found.short_docs, [""; 0]);
    }

    #[test]
    fn a_doc_comment_is_judged_as_a_whole() {
        let source = "//! The daemon.\n\n/// Which.\na: u8,\n/// Which\n/// one it is.\n// No doc.\n///\nb: u8,\n";
        let found = find("a.rs", source);
        assert_eq!(found.short_docs, ["a.rs:1: The daemon.", "a.rs:3: Which."]);
    }

    #[test]
    fn a_room_is_its_src() {
        assert!(is_in("daemon", "daemon/src/main.rs"));
        assert!(is_in("policy", "policy/core/src/units.rs"));
        assert!(!is_in("policy", "policy/core/tests/scheduler/world/mod.rs"));
        assert!(!is_in("wire", "wired/src/lib.rs"));
    }

    #[test]
    fn too_many_fail() {
        assert!(at_most(3, 3, "lines").is_ok());
        let error = at_most(3, 4, "lines").unwrap_err().to_string();
        assert!(error.starts_with("4 lines, at most 3:"), "{error}");
    }
}
