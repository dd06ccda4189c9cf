//! Which hooks ran: a debug build of the agent puts the name of each hook that ran into a file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::names::STUB_ONLY;
use crate::stub::calls::Made;

/// The variable that names the file.
pub const VARIABLE: &str = "RTSWAP_HOOKS_RAN";

/// Bytes of a name's slot in it.
const SLOT: usize = 64;

/// Slots for more hooks than there are.
const SLOTS: usize = 1024;

/// Makes an empty one.
///
/// # Errors
/// It cannot be written.
pub fn make(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    Ok(file.set_len((SLOT * SLOTS) as u64)?)
}

/// The names in it.
///
/// # Errors
/// It cannot be read, or has what is no name.
pub fn read(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let name = |slot: &[u8]| {
        let end = slot.iter().position(|byte| *byte == 0);
        Ok(std::str::from_utf8(&slot[..end.unwrap_or(SLOT)])?.to_owned())
    };
    let names = bytes.chunks(SLOT).map(name);
    let named = names.filter(|name| !name.as_ref().is_ok_and(String::is_empty));
    named.collect()
}

/// Where the hooks ran.
pub struct Ran {
    /// All hooks of the agent.
    pub hooked: BTreeSet<String>,
    /// Those that ran in a probe, on the simulated GPU.
    pub simgpu: BTreeSet<String>,
    /// Those that handed a call on to the stub, unchanged.
    pub stub: BTreeSet<String>,
}

impl Ran {
    /// `[{name, ran: ["simgpu", "stub"]}]`.
    pub fn json(&self) -> Value {
        let hook = |name: &String| {
            let places = [("simgpu", &self.simgpu), ("stub", &self.stub)];
            let ran = places.iter().filter(|(_, names)| names.contains(name));
            json!({ "name": name, "ran": ran.map(|(place, _)| place).collect::<Vec<_>>() })
        };
        self.hooked.iter().map(hook).collect()
    }

    /// Where a run of all probes did not call on the simulated GPU what [`STUB_ONLY`] lets expect; `all` is false where
    /// some were skipped. Nothing of a release build, whose agent notes nothing.
    pub fn unexpected(&self, all: bool) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.hooked.iter().filter(|_| !self.simgpu.is_empty()) {
            let (ran, listed) = (
                self.simgpu.contains(name),
                STUB_ONLY.contains(&name.as_str()),
            );
            if ran && listed {
                found.push(format!(
                    "{name} ran on the simulated GPU, and is listed as on the stub only"
                ));
            } else if all && !ran && !listed {
                found.push(format!("{name} ran on the stub only, and is not listed so"));
            }
        }
        found
    }

    /// The hooks that never ran.
    pub fn never(&self) -> Vec<&String> {
        let ran = |name: &&String| !self.simgpu.contains(*name) && !self.stub.contains(*name);
        self.hooked.iter().filter(ran).collect()
    }
}

/// The hooks of `made` that handed their call on, to a driver that fails with what `failure` says.
///
/// # Errors
/// Those of `failure`.
pub fn handed_on(made: &[Made], failure: impl Fn(&str) -> Result<u32>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for made in made {
        let name = &made.passed.name;
        if made.difference(failure(name)?).is_none() {
            names.insert(name.clone());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_ran_is_compared_with_the_list() {
        let listed = STUB_ONLY[0];
        let mut ran = Ran {
            hooked: names(&["cuMemAlloc_v2", "cuMemFree_v2", listed]),
            simgpu: names(&["cuMemAlloc_v2", "cuMemFree_v2"]),
            stub: names(&["cuMemAlloc_v2", listed]),
        };
        assert!(ran.unexpected(true).is_empty() && ran.never().is_empty());
        ran.simgpu = names(&["cuMemAlloc_v2", listed]);
        assert_eq!(ran.unexpected(true).len(), 2);
        assert_eq!(ran.unexpected(false).len(), 1);
        assert_eq!(ran.never(), ["cuMemFree_v2"]);
    }

    #[test]
    fn a_file_gives_the_names_in_its_slots() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        make(file.path())?;
        assert!(read(file.path())?.is_empty());
        let mut bytes = fs::read(file.path())?;
        bytes[SLOT..SLOT + 6].copy_from_slice(b"cuInit");
        fs::write(file.path(), bytes)?;
        assert_eq!(read(file.path())?, names(&["cuInit"]));
        Ok(())
    }
}
