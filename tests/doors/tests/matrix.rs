//! docs/doors.md shows what the suite tries.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rtswap_doors::{names, report};
use rtswap_e2e::{Machine, MachineOptions};

const MARK: &str = "<!-- matrix -->\n";

#[test]
fn the_matrix_in_the_documentation_is_the_suites() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doors.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (_, matrix) = text.split_once(MARK).context("no mark in docs/doors.md")?;
    let machine = Machine::new(MachineOptions::default())?;
    let hooked = names::hooked(&machine.binary("librtswap_cuda.so"))?;
    ensure!(
        matrix == report::markdown(&hooked),
        "docs/doors.md is old: put what `cargo xtask doors --markdown` prints behind {MARK}"
    );
    Ok(())
}
