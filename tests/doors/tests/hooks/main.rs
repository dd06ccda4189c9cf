//! The tables of names against the driver's functions as cudarc declares them: each is hooked, excluded with a reason or
//! inert with one, and nothing else is named.
#![allow(missing_docs)]

mod signatures;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use rtswap_doors::names::{self, EXCLUDED, INERT, NEWER, STUB_ONLY, UNDECLARED, functions};
use rtswap_doors::signature::declared::{Declarations, Function};
use rtswap_e2e::{Machine, MachineOptions};

#[test]
fn each_function_is_hooked_or_named_with_a_reason() -> Result<()> {
    let hooked = hooked()?;
    let named: BTreeSet<_> = functions(EXCLUDED).chain(functions(INERT)).collect();
    let declared = declared()?;
    let missing: Vec<_> = declared
        .iter()
        .map(String::as_str)
        .chain(UNDECLARED.iter().copied())
        .filter(|name| !hooked.contains(*name) && !named.contains(name))
        .collect();
    ensure!(
        missing.is_empty(),
        "{} functions are neither hooked nor named:\n{missing:#?}",
        missing.len()
    );
    Ok(())
}

#[test]
fn nothing_is_named_that_is_hooked_unknown_or_named_twice() -> Result<()> {
    let (hooked, declared) = (hooked()?, declared()?);
    let mut seen = BTreeSet::new();
    for (reason, names) in EXCLUDED.iter().chain(INERT) {
        ensure!(!reason.is_empty() && !names.is_empty());
        for name in *names {
            let known = declared.contains(*name) || UNDECLARED.contains(name);
            ensure!(seen.insert(*name), "{name} is named twice");
            ensure!(!hooked.contains(*name), "{name} is hooked and named");
            ensure!(known, "{name} need not be named");
        }
    }
    Ok(())
}

#[test]
fn each_hook_is_a_function_of_the_driver() -> Result<()> {
    let (hooked, declared) = (hooked()?, declared()?);
    let known = |name: &str| declared.contains(name) || UNDECLARED.contains(&name);
    let strangers: Vec<_> = hooked.iter().filter(|name| !known(name)).collect();
    ensure!(
        strangers.is_empty(),
        "no functions of a driver: {strangers:?}"
    );
    for name in functions(NEWER).chain(STUB_ONLY.iter().copied()) {
        ensure!(hooked.contains(name), "{name} is not hooked");
    }
    Ok(())
}

/// What cudarc lacks, and what it does not.
#[test]
fn undeclared_names_are_undeclared() -> Result<()> {
    let declared = declared()?;
    for name in UNDECLARED {
        ensure!(!declared.contains(*name), "cudarc declares {name}");
    }
    Ok(())
}

/// The forms of all functions that cudarc declares.
fn declared() -> Result<BTreeSet<String>> {
    let functions = Declarations::read()?.functions;
    ensure!(functions.len() > 450, "{} functions only", functions.len());
    let names: BTreeSet<String> = functions.iter().flat_map(Function::forms).collect();
    // The rules of the forms, on names of each kind.
    for name in [
        "cuMemAlloc",
        "cuMemAlloc_v2",
        "cuMemFreeAsync_ptsz",
        "cuMemsetD2D16_v2_ptds",
        "cuLaunchKernelEx",
        "cuLaunchKernelEx_ptsz",
        "cuStreamBatchMemOp_v2_ptsz",
        "cuMemDiscardBatchAsync",
    ] {
        ensure!(names.contains(name), "the rules forget {name}");
    }
    Ok(names)
}

/// What the agent's library exports under the driver's names.
fn hooked() -> Result<BTreeSet<String>> {
    names::hooked(&Machine::new(MachineOptions::default())?.binary("librtswap_cuda.so"))
}
