//! The agent's hooks against the driver's functions as cudarc declares them: none that allocates,
//! frees, writes, runs or hands memory on may be in neither the hook table nor the list of exclusions.
#![allow(missing_docs)]

mod declared;
mod excluded;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSymbol};
use rtswap_e2e::{Machine, MachineOptions};

use declared::Function;
use excluded::EXCLUDED;

#[test]
fn each_function_that_concerns_memory_or_work_is_hooked_or_excluded_with_a_reason() -> Result<()> {
    let hooked = hooked()?;
    let excluded = excluded();
    let wanted = wanted()?;
    let missing: Vec<_> = wanted
        .iter()
        .filter(|name| !hooked.contains(*name) && !excluded.contains(name.as_str()))
        .collect();
    ensure!(
        missing.is_empty(),
        "{} functions are neither hooked nor excluded:\n{missing:#?}",
        missing.len()
    );
    Ok(())
}

#[test]
fn nothing_is_excluded_that_is_hooked_unknown_or_named_twice() -> Result<()> {
    let (hooked, wanted) = (hooked()?, wanted()?);
    let mut seen = BTreeSet::new();
    for (reason, names) in EXCLUDED {
        ensure!(!reason.is_empty() && !names.is_empty());
        for name in *names {
            ensure!(seen.insert(*name), "{name} is excluded twice");
            ensure!(!hooked.contains(*name), "{name} is hooked and excluded");
            ensure!(wanted.contains(*name), "{name} need not be excluded");
        }
    }
    Ok(())
}

#[test]
fn each_hook_is_a_function_of_the_driver() -> Result<()> {
    let known: BTreeSet<String> = declared::functions()?
        .iter()
        .flat_map(Function::forms)
        .collect();
    // Forms of drivers before 12.0 and 13.0, gone from the header that cudarc was made from.
    let former = |name: &str| FORMER.contains(&name);
    let strangers: Vec<_> = hooked()?
        .into_iter()
        .filter(|name| !known.contains(name) && !former(name))
        .collect();
    ensure!(strangers.is_empty(), "unknown to cudarc: {strangers:?}");
    Ok(())
}

/// Exported by drivers, and in no version of the header that cudarc knows.
const FORMER: &[&str] = &["cuGraphInstantiate"];

/// The names whose forms must be hooked or excluded.
fn wanted() -> Result<BTreeSet<String>> {
    let functions = declared::functions()?;
    ensure!(functions.len() > 450, "{} functions only", functions.len());
    let concerned = functions.iter().filter(|function| function.concerns());
    let names: BTreeSet<String> = concerned.flat_map(Function::forms).collect();
    // The rule itself, on names of each kind.
    for name in [
        "cuMemAlloc_v2",
        "cuMemFreeAsync_ptsz",
        "cuMemsetD2D16_v2_ptds",
        "cuLaunchKernelEx",
        "cuGraphUpload",
        "cuArray3DCreate_v2",
        "cuIpcOpenMemHandle",
        "cuStreamBatchMemOp_v2_ptsz",
        "cuMemDiscardBatchAsync",
        "cuMulticastBindMem",
    ] {
        ensure!(names.contains(name), "the rules forget {name}");
    }
    Ok(names)
}

fn excluded() -> BTreeSet<&'static str> {
    EXCLUDED
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect()
}

/// What the agent's library exports under the driver's names.
fn hooked() -> Result<BTreeSet<String>> {
    let library = Machine::new(MachineOptions::default())?.binary("librtswap_cuda.so");
    let bytes = fs::read(&library).with_context(|| library.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let names: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(object::ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| is_driver_name(name))
        .map(str::to_owned)
        .collect();
    ensure!(
        names.contains("cuLaunchKernel"),
        "{} exports nothing",
        library.display()
    );
    Ok(names)
}

fn is_driver_name(name: &str) -> bool {
    name.strip_prefix("cu")
        .and_then(|rest| rest.chars().next())
        .is_some_and(char::is_uppercase)
}
