//! Every command line that the documents show, typed at a machine of its own for each document, or, where that is not
//! possible in a test, at least read by its program.
//!
//! `lines` finds them, `machine` types them, `read` has them read.
#![allow(missing_docs)]

mod lines;
mod machine;
mod read;

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use rtswap_e2e::unless_stalled;

use lines::{Line, in_blocks, in_text};
use machine::Typist;

/// Documents, and folders of them.
const PLACES: [&str; 7] = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs",
    "packaging/man",
    "python/README.md",
    "tests/gpu/README.md",
];

/// The paths of all documents, from the root of the sources.
fn documents() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for place in PLACES {
        if lines::root().join(place).is_file() {
            found.push(place.to_owned());
            continue;
        }
        for entry in fs::read_dir(lines::root().join(place))? {
            let name = entry?.file_name();
            if Path::new(&name)
                .extension()
                .is_some_and(|ending| ending == "md")
            {
                found.push(format!("{place}/{}", name.display()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What was done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Typed,
    Read,
}

#[test]
fn every_documented_command_line_works() -> Result<()> {
    let mut failures = Vec::new();
    let (mut typed, mut read) = (0, 0);
    for document in &documents()? {
        // Some lines profile a program, and later ones use that profile: a stall would make it useless.
        let tried = unless_stalled(document, || {
            let (here, there) = try_lines(document)?;
            typed += here;
            read += there;
            Ok(())
        });
        failures.extend(tried.err().map(|error| format!("{error:#}")));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    eprintln!("{typed} lines typed, {read} read");
    ensure!(typed > 0 && read > 0, "no lines were found");
    Ok(())
}

/// Types or reads all lines of a document. Returns how many of each.
fn try_lines(document: &str) -> Result<(usize, usize)> {
    let mut failures = Vec::new();
    let (mut typed, mut read) = (0, 0);
    let text = fs::read_to_string(lines::root().join(document))?;
    let blocks = in_blocks(document, &text);
    let mut typist = Typist::new(&blocks);
    let blocks = blocks
        .iter()
        .map(|line| (line, type_or_read(&mut typist, line)));
    let spans = in_text(document, &text);
    let spans = spans
        .iter()
        .map(|line| (line, read::read(&line.text).map(|()| Done::Read)));
    for (line, done) in blocks.chain(spans) {
        match done {
            Ok(Done::Typed) => {
                eprintln!("typed {line}");
                typed += 1;
            }
            Ok(Done::Read) => {
                eprintln!("read  {line}");
                read += 1;
            }
            Err(error) => failures.push(format!("{line}: {error:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok((typed, read))
}

/// What starts a daemon or builds the workspace is read, all else is typed.
fn type_or_read(typist: &mut Typist, line: &Line) -> Result<Done> {
    if matches!(line.program(), "rtswapd" | "cargo") {
        read::read(&line.text)?;
        return Ok(Done::Read);
    }
    typist.type_line(line)
}
