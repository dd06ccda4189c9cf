//! What the object was built from: `ebpf/prebuilt/manifest.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{LINKER, object_at, rustc};
use crate::process::Run;
use crate::workspace::Workspace;

/// The sources: files, and folders of them.
const SOURCES: [&str; 5] = [
    "ebpf/common/Cargo.toml",
    "ebpf/common/src",
    "ebpf/probes/Cargo.lock",
    "ebpf/probes/Cargo.toml",
    "ebpf/probes/src",
];
/// The object's entry.
const OBJECT: &str = "object";

/// Names and hashes of the object and its sources, names and versions of the tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    entries: BTreeMap<String, String>,
}

impl Manifest {
    /// Of this object and the sources as they are.
    pub(super) fn of(workspace: &Workspace, object: &Path) -> Result<Self> {
        let root = workspace.root();
        let mut files = Vec::new();
        for source in SOURCES {
            collect(&root.join(source), &mut files)?;
        }
        let mut entries = BTreeMap::from([
            (LINKER.name.to_owned(), LINKER.version.to_owned()),
            ("rustc".into(), rustc(workspace, &["--version"])?),
            (OBJECT.into(), hash(object, root)?),
        ]);
        for file in files {
            let name = file.strip_prefix(root)?.to_string_lossy().into_owned();
            entries.insert(name, hash(&file, root)?);
        }
        Ok(Self { entries })
    }

    /// The one that is checked in.
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let text = fs::read_to_string(path(workspace)).context("ebpf/prebuilt/manifest.json")?;
        let value: Value = serde_json::from_str(&text)?;
        let entries = value["built_from"].as_object().context("no built_from")?;
        let text =
            |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        Ok(Self {
            entries: entries.iter().filter_map(text).collect(),
        })
    }

    /// Writes it beside the object.
    pub(super) fn write(&self, workspace: &Workspace) -> Result<()> {
        let value = json!({ "version": 1, "built_from": self.entries });
        let text = serde_json::to_string_pretty(&value)?;
        fs::write(path(workspace), text + "\n")?;
        Ok(())
    }

    /// A line for each entry that another one has not, or differently.
    pub(super) fn differences(&self, kept: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<_> =
            self.entries.keys().chain(kept.entries.keys()).collect();
        names
            .into_iter()
            .filter_map(
                |name| match (self.entries.get(name), kept.entries.get(name)) {
                    (now, then) if now == then => None,
                    (Some(now), Some(then)) => Some(format!("{name}: {now}, was {then}")),
                    (Some(_), None) => Some(format!("{name}: new")),
                    _ => Some(format!("{name}: gone")),
                },
            )
            .collect()
    }
}

fn path(workspace: &Workspace) -> PathBuf {
    object_at(workspace).with_file_name("manifest.json")
}

/// The file, or all files below the folder, hidden ones apart.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}

/// SHA-256, in hexadecimal.
fn hash(file: &Path, root: &Path) -> Result<String> {
    let line = Run::new("sha256sum", root)
        .args(&["--"])
        .args(&[file])
        .read()?;
    let hash = line.split_whitespace().next().context("sha256sum")?;
    Ok(hash.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(entries: &[(&str, &str)]) -> Manifest {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Manifest {
            entries: entries.iter().map(own).collect(),
        }
    }

    #[test]
    fn each_difference_is_named() {
        let kept = manifest(&[("a.rs", "1"), ("b.rs", "2"), ("rustc", "1.95")]);
        assert_eq!(kept.differences(&kept), [""; 0]);
        let now = manifest(&[("a.rs", "3"), ("c.rs", "2"), ("rustc", "1.95")]);
        assert_eq!(
            now.differences(&kept),
            ["a.rs: 3, was 1", "b.rs: gone", "c.rs: new"]
        );
    }

    #[test]
    fn a_hash_is_that_of_the_contents() {
        let empty = hash(Path::new("/dev/null"), Path::new("/")).unwrap();
        assert!(
            empty.starts_with("e3b0c44298fc1c149afbf4c8996fb924"),
            "{empty}"
        );
    }
}
