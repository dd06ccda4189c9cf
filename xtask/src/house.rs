//! Rules of the house that are checked by reading: file lengths, and the purity of the pure crates.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::Run;

/// Lines of the longest file.
const MOST_LINES: usize = 600;

/// What is written by hand and read by people.
const SOURCES: [&str; 6] = ["*.rs", "*.py", "*.c", "*.h", "*.sh", "*.ptx"];

/// The crates that know no clock, thread, file or socket.
const PURE: [&str; 5] = [
    "policy/core",
    "policy/engine",
    "policy/planner",
    "policy/simulator",
    "wire",
];

/// The files with names like these that are committed or may be, one a line.
pub(crate) fn listed(root: &Path, names: &[&str]) -> Result<String> {
    let list = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ];
    Run::new("git", root).args(&list).args(names).output()
}

/// A text for each source file that is too long.
pub(crate) fn long_files(root: &Path) -> Result<Vec<String>> {
    let names = listed(root, &SOURCES)?;
    let mut found = Vec::new();
    for name in names.lines() {
        // One that was deleted and not yet committed is still listed.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        found.extend(too_long(name, &text));
    }
    Ok(found)
}

fn too_long(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MOST_LINES).then(|| format!("{name}: {lines} lines, at most {MOST_LINES}: split it"))
}

/// A text for each pure crate whose root does not say that it is.
pub(crate) fn impure(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in PURE {
        let path = root.join(name).join("src/lib.rs");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(missing_attributes(name, &text));
    }
    Ok(found)
}

fn missing_attributes(name: &str, text: &str) -> Vec<String> {
    // With std under test only, loom and proptest can be used.
    let no_std = [
        "#![no_std]",
        "#![cfg_attr(not(test), no_std)]",
        "#![cfg_attr(not(loom), no_std)]",
    ];
    let no_unsafe = ["#![forbid(unsafe_code)]"];
    let has = |any: &[&str]| text.lines().any(|line| any.contains(&line.trim()));
    [(has(&no_std), no_std[0]), (has(&no_unsafe), no_unsafe[0])]
        .into_iter()
        .filter(|(present, _)| !present)
        .map(|(_, wanted)| format!("{name}/src/lib.rs lacks {wanted}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_after_the_limit_is_found() {
        assert_eq!(too_long("a.rs", &"x\n".repeat(600)), None);
        assert!(
            too_long("a.rs", &"x\n".repeat(601))
                .unwrap()
                .contains("601")
        );
    }

    #[test]
    fn a_crate_that_is_not_pure_is_found() {
        let pure = "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(missing_attributes("policy/core", pure), [""; 0]);
        let commented = "// #![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(
            missing_attributes("policy/core", commented),
            ["policy/core/src/lib.rs lacks #![no_std]"]
        );
        assert_eq!(missing_attributes("policy/core", "").len(), 2);
    }
}
