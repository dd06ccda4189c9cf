//! A driver library on disk, and what it exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSymbol};

use crate::version::{NEWEST_KNOWN, Version};

/// One of the driver's libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The file that programs load.
    pub file: &'static str,
    /// How the names of the functions begin; a capital follows.
    pub prefix: &'static str,
    /// How the names of Debian's packages end.
    pub package_ending: &'static str,
}

/// The CUDA driver.
pub const CUDA: Kind = Kind {
    file: "libcuda.so.1",
    prefix: "cu",
    package_ending: "cuda1",
};

/// NVML.
pub const NVML: Kind = Kind {
    file: "libnvidia-ml.so.1",
    prefix: "nvml",
    package_ending: "ml1",
};

/// Both.
pub const KINDS: [Kind; 2] = [CUDA, NVML];

/// A library, real or simulated.
#[derive(Debug, Clone)]
pub struct Library {
    /// The driver's version, or `simgpu`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The functions that it exports, with their addresses in the file.
    pub exports: BTreeMap<String, u64>,
}

impl Library {
    /// Reads the exports of the file at `path`.
    pub fn read(name: &str, path: &Path, kind: Kind) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let exports = exports(&bytes, kind).with_context(|| path.display().to_string())?;
        ensure!(!exports.is_empty(), "{} exports nothing", path.display());
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            exports,
        })
    }

    /// The driver's branch; none of the simulated one.
    pub fn branch(&self) -> Option<u32> {
        Version::parse(&self.name).map(|version| version.branch())
    }

    /// Whether its branch is later than [`NEWEST_KNOWN`].
    pub fn is_newer(&self) -> bool {
        self.branch() > Some(NEWEST_KNOWN)
    }

    /// The names of its functions.
    pub fn names(&self) -> BTreeSet<&str> {
        self.exports.keys().map(String::as_str).collect()
    }

    /// Whether it exports a function of this name.
    pub fn has(&self, name: &str) -> bool {
        self.exports.contains_key(name)
    }

    /// Its folder, which holds no other driver library of this kind.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// The groups of names that have one address between them.
    pub fn aliases(&self) -> Vec<Vec<&str>> {
        let mut by_address: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for (name, address) in &self.exports {
            by_address.entry(*address).or_default().push(name);
        }
        by_address
            .into_values()
            .filter(|names| names.len() > 1)
            .collect()
    }
}

fn exports(bytes: &[u8], kind: Kind) -> Result<BTreeMap<String, u64>> {
    let file = object::File::parse(bytes)?;
    let symbols = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    Ok(symbols
        .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())))
        .filter(|(name, _)| is_function(name, kind))
        .map(|(name, address)| (name.to_owned(), address))
        .collect())
}

/// `cuInit`, not `cudbgApiInit` nor `_init`.
fn is_function(name: &str, kind: Kind) -> bool {
    let rest = name.strip_prefix(kind.prefix);
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// The newest library of this kind of each branch in `folder`, oldest branch first. One of a later branch that cannot be read
/// is left out, and standard error says so.
pub fn newest_of_each_branch(folder: &Path, kind: Kind) -> Result<Vec<Library>> {
    let mut branches: BTreeMap<u32, Version> = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for entry in entries {
        let name = entry?.file_name();
        let Some(version) = name.to_str().and_then(Version::parse) else {
            continue;
        };
        if !folder.join(&name).join(kind.file).is_file() {
            continue;
        }
        let known = branches.get(&version.branch());
        if known.is_none_or(|known| *known < version) {
            branches.insert(version.branch(), version);
        }
    }
    let mut libraries = Vec::new();
    for version in branches.into_values() {
        let name = version.to_string();
        match Library::read(&name, &folder.join(&name).join(kind.file), kind) {
            Err(error) if version.branch() > NEWEST_KNOWN => {
                eprintln!("UNJUDGED {name}, newer than branch {NEWEST_KNOWN}: {error:#}");
            }
            read => libraries.push(read?),
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_other_symbols() {
        assert!(is_function("cuInit", CUDA) && is_function("nvmlInit_v2", NVML));
        for name in ["cudbgApiInit", "cu", "_init", "nvmlInit"] {
            assert!(!is_function(name, CUDA), "{name}");
        }
    }

    #[test]
    fn names_with_one_address_are_found() {
        let exports = [("cuA", 1), ("cuB", 2), ("cuC", 1)];
        let library = Library {
            name: "x".into(),
            path: "x".into(),
            exports: exports
                .map(|(name, address)| (name.to_owned(), address))
                .into(),
        };
        assert_eq!(library.aliases(), [["cuA", "cuC"]]);
    }

    #[test]
    fn libraries_of_later_branches_are_newer() {
        let library = |name: &str| Library {
            name: name.to_owned(),
            path: "x".into(),
            exports: BTreeMap::new(),
        };
        assert_eq!(library("550.163.01").branch(), Some(550));
        assert_eq!(library("simgpu").branch(), None);
        for name in ["simgpu", "470.256.02", &format!("{NEWEST_KNOWN}.99")] {
            assert!(!library(name).is_newer(), "{name}");
        }
        assert!(library(&format!("{}.1", NEWEST_KNOWN + 1)).is_newer());
    }
}
