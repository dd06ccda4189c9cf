//! The `hooks!` tables of the agent, as their source has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::types::Types;
use super::{Signature, split};

/// What a row of a table says of a hook.
pub struct Row {
    /// `gated`, or the function that stands for the driver's.
    pub via: String,
    /// What it takes.
    pub signature: Signature,
}

/// All rows by the hooked name; `types` are the driver's, to which those of the hooks' own are added.
///
/// # Errors
/// The source cannot be read, has a type that is not known, or a row that is not understood.
pub fn rows(mut types: Types) -> Result<BTreeMap<String, Row>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-agent/src/hooks");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        sources.push(without_comments(&fs::read_to_string(entry?.path())?));
    }
    for source in &sources {
        types.read(source);
    }
    let mut rows = BTreeMap::new();
    for source in &sources {
        read(source, &types, &mut rows)?;
    }
    Ok(rows)
}

/// Adds the rows of one file.
///
/// # Errors
/// As [`rows`].
pub fn read(source: &str, types: &Types, rows: &mut BTreeMap<String, Row>) -> Result<()> {
    for table in source.split("\nhooks! {\n").skip(1) {
        let (table, _) = table.split_once("\n}").context("a table without an end")?;
        for row in split(table, ';') {
            let (via, rest) = row.split_once(':').with_context(|| row.to_owned())?;
            let (names, rest) = rest.split_once('(').with_context(|| row.to_owned())?;
            let end = closing(rest).with_context(|| row.to_owned())?;
            let (parameters, writes) = (&rest[..end], rest[end + 1..].trim());
            ensure!(writes.is_empty() || writes.starts_with("writes "), "{row}");
            for name in names.split(',').map(str::trim) {
                ensure!(name.starts_with("cu"), "{name:?} in: {row}");
                let row = Row {
                    via: via.trim().to_owned(),
                    signature: Signature::parse(parameters, types).context(name.to_owned())?,
                };
                if rows.insert(name.to_owned(), row).is_some() {
                    bail!("{name} has two rows");
                }
            }
        }
    }
    Ok(())
}

/// Where the parenthesis is that closes what was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn without_comments(source: &str) -> String {
    let lines = source.lines().map(|line| {
        let (code, _) = line.split_once("//").unwrap_or((line, ""));
        code.trim_end()
    });
    lines.collect::<Vec<_>>().join("\n")
}
