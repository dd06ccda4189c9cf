use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::names::UNDECLARED;

use super::declared::Declarations;
use super::table::read;

/// What is said of a table with one row, of which `planted` replaces `right`.
fn said(right: &str, planted: &str) -> Result<Option<String>> {
    let row = "    gated: cuMemcpyPeerAsync (
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        bytes: usize, stream: CUstream) writes (to, bytes);";
    let table = format!("\nhooks! {{\n{}\n}}\n", row.replace(right, planted));
    let declarations = Declarations::read()?;
    let mut rows = BTreeMap::new();
    read(&table, &declarations.types, &mut rows)?;
    let hooked = rows.get("cuMemcpyPeerAsync").context("no row")?;
    Ok(hooked
        .signature
        .difference(&declarations.signatures()?["cuMemcpyPeerAsync"]))
}

#[test]
fn a_right_row_is_right() -> Result<()> {
    assert_eq!(said("", "")?, None);
    Ok(())
}

#[test]
fn a_missing_argument_is_found() -> Result<()> {
    let said = said("bytes: usize, stream", "stream")?;
    assert_eq!(said.as_deref(), Some("5 arguments, declared with 6"));
    Ok(())
}

#[test]
fn a_narrow_argument_is_found() -> Result<()> {
    let said = said("bytes: usize", "bytes: c_uint")?;
    let expected = "argument 4 is an integer of 4 bytes, declared as a size_t";
    assert_eq!(said.as_deref(), Some(expected));
    Ok(())
}

#[test]
fn an_argument_in_the_place_of_another_is_found() -> Result<()> {
    let said = said(
        "from: CUdeviceptr, from_context: CUcontext",
        "from_context: CUcontext, from: CUdeviceptr",
    )?;
    let expected = "argument 2 is a pointer, declared as an address";
    assert_eq!(said.as_deref(), Some(expected));
    Ok(())
}

/// Forms that no declaration has, of each rule.
#[test]
fn forms_have_the_signatures_of_their_age() -> Result<()> {
    let signatures = Declarations::read()?.signatures()?;
    let of = |name: &str| {
        let signature = signatures.get(name).with_context(|| name.to_owned())?;
        let kinds: Vec<String> = signature.0.iter().map(ToString::to_string).collect();
        anyhow::Ok(kinds.join(", "))
    };
    let narrow = "an integer of 4 bytes";
    assert_eq!(of("cuMemFree_v2")?, "an address");
    assert_eq!(of("cuMemFree")?, narrow);
    assert_eq!(
        of("cuMemsetD8")?,
        format!("{narrow}, an integer of 1 bytes, {narrow}")
    );
    assert_eq!(of("cuMemFreeAsync_ptsz")?, "an address, a pointer");
    assert_eq!(
        of("cuStreamBeginCapture_v2_ptsz")?,
        format!("a pointer, {narrow}")
    );
    assert_eq!(of("cuStreamBeginCapture_ptsz")?, "a pointer");
    assert_eq!(of("cuCtxDestroy")?, of("cuCtxDestroy_v2")?);
    assert_eq!(
        of("cuIpcOpenMemHandle")?,
        format!("a pointer, a structure of 64 bytes, {narrow}")
    );
    assert!(of("cuMemPrefetchAsync_v2")?.contains("a structure of 8 bytes"));
    Ok(())
}

/// No header has the parameters of the three.
#[test]
fn what_cudarc_lacks_has_a_prototype() -> Result<()> {
    let signatures = Declarations::read()?.signatures()?;
    let lacking: Vec<_> = UNDECLARED
        .iter()
        .copied()
        .filter(|name| !signatures.contains_key(*name))
        .collect();
    let expected = ["cuEGLApiInit", "cuMemGetAttribute", "cuMemGetAttribute_v2"];
    assert_eq!(lacking, expected);
    Ok(())
}
