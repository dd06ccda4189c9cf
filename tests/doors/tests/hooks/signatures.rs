//! The agent's hooks take what the driver's functions are declared to take.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rtswap_doors::signature::declared::Declarations;
use rtswap_doors::signature::table::rows;

#[test]
fn each_hook_has_the_signature_of_its_declaration() -> Result<()> {
    let declarations = Declarations::read()?;
    let declared = declarations.signatures()?;
    let mut wrong = Vec::new();
    for (name, row) in rows(declarations.types)? {
        let declared = declared
            .get(&name)
            .with_context(|| format!("{name} is not declared"))?;
        wrong.extend(
            row.signature
                .difference(declared)
                .map(|why| format!("{name}: {why}")),
        );
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// The tables' source is what was compiled, and all of it is read.
#[test]
fn the_tables_are_what_the_library_exports() -> Result<()> {
    let rows = rows(Declarations::read()?.types)?;
    let names: BTreeSet<String> = rows.into_keys().collect();
    let exported = super::hooked()?;
    let differing: Vec<_> = names.symmetric_difference(&exported).collect();
    ensure!(differing.is_empty(), "{differing:?}");
    Ok(())
}
