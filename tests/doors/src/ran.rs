//! Which hooks ran: a debug build of the agent puts the name of each hook that ran into a file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

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
