//! What the files of a room may name: the leaf modules of the engine, and the shell around it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::Run;

/// A folder, and what its files may name of a path's next segment.
struct Rule {
    folder: &'static str,
    /// What comes before the segment.
    prefix: &'static str,
    allowed: &'static [&'static str],
}

const RULES: [Rule; 5] = [
    Rule {
        folder: "policy/engine/src/groups",
        prefix: "crate::",
        allowed: &["groups"],
    },
    Rule {
        folder: "policy/engine/src/ledger",
        prefix: "crate::",
        allowed: &["ledger", "sample", "uuid"],
    },
    Rule {
        folder: "policy/engine/src/sample",
        prefix: "crate::",
        allowed: &["sample", "uuid"],
    },
    // The shell decides nothing: it knows nouns and units, and no scheduler.
    Rule {
        folder: "daemon/src",
        prefix: "rtswap_policy::",
        allowed: &["admission", "assign", "cost", "task", "units"],
    },
    Rule {
        folder: "policy/engine/src",
        prefix: "rtswap_",
        allowed: &["policy"],
    },
];

/// A text for each line that names what its room may not.
pub(crate) fn trespasses(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for rule in &RULES {
        let listed = [
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
        ];
        let names = Run::new("git", root)
            .args(&listed)
            .args(&[&format!("{}/*.rs", rule.folder)])
            .output()?;
        ensure!(!names.is_empty(), "{} is no room any more", rule.folder);
        for name in names.lines() {
            let path = root.join(name);
            if path.exists() {
                let text = fs::read_to_string(&path).with_context(|| name.to_owned())?;
                found.extend(rule.broken(name, &text));
            }
        }
    }
    Ok(found)
}

impl Rule {
    fn broken(&self, name: &str, text: &str) -> Vec<String> {
        let lines = text.lines().enumerate();
        let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        code.flat_map(|(at, line)| {
            let named = line.match_indices(self.prefix).filter(|(start, _)| {
                // A longer word ends so.
                let before = line[..*start].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            });
            let ends = named.map(|(start, _)| &line[start + self.prefix.len()..]);
            let strangers = ends.map(first_word).filter(|word| !self.allows(word));
            strangers.map(move |word| {
                let prefix = self.prefix;
                format!(
                    "{name}:{}: {prefix}{word}, but {} may name {prefix}{{{}}} only",
                    at + 1,
                    self.folder,
                    self.allowed.join(", ")
                )
            })
        })
        .collect()
    }

    fn allows(&self, word: &str) -> bool {
        self.allowed.contains(&word)
    }
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_that_names_another_room_is_told_with_its_line() {
        let rule = &RULES[0];
        let text =
            "//! crate::engine is not here.\nuse crate::groups::Order;\nuse crate::ids::X;\n";
        let broken = rule.broken("a.rs", text);
        let expected =
            "a.rs:3: crate::ids, but policy/engine/src/groups may name crate::{groups} only";
        assert_eq!(broken, [expected]);
        assert_eq!(
            rule.broken("a.rs", "pub(in mycrate::x) fn f() {}\n"),
            [""; 0]
        );
    }

    #[test]
    fn the_shell_may_not_name_the_scheduler() {
        let shell = &RULES[3];
        let broken = |line| !shell.broken("b.rs", line).is_empty();
        assert!(broken("use rtswap_policy::scheduler::Event;"));
        assert!(broken("use rtswap_policy::{scheduler, task};"));
        assert!(!broken("use rtswap_policy::units::Bytes;"));
    }
}
