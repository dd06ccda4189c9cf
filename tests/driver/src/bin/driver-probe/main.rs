//! `driver-probe codes|stores before|after | lookups | replaced | tables | calls LIBRARY`: loads a driver library that is given by its
//! path, calls it and prints what it answers, one line an answer. The names to ask for are read from stdin.
//!
//! A library may crash or hang when asked: return codes are asked for in forked children, and for everything else the
//! caller waits with a bound.

mod calls;
mod codes;
mod library;
mod lookups;
mod tables;

use std::ffi::CString;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use rtswap_driver_tests::codes::{Phase, Words};
use rtswap_driver_tests::probe::END;

use library::Library;

const USAGE: &str =
    "usage: driver-probe codes|stores before|after | lookups | replaced | tables | calls LIBRARY";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("driver-probe: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let &[.., path] = arguments.as_slice() else {
        bail!("{USAGE}");
    };
    let names = names()?;
    let library = Library::open(path)?;
    match arguments[..arguments.len() - 1] {
        ["codes", phase] => codes::print(&library, &names, self::phase(phase)?, Words::Zeros),
        ["stores", phase] => codes::print(&library, &names, self::phase(phase)?, Words::Places),
        ["lookups"] => lookups::print(&library, &names),
        ["replaced"] => library.print_replaced(&names),
        ["tables"] => tables::print(&library, &names),
        ["calls"] => calls::serve(&library, &names),
        _ => bail!("{USAGE}"),
    }
}

fn phase(name: &str) -> Result<Phase> {
    let phases = [Phase::Before, Phase::After];
    let phase = phases.into_iter().find(|phase| phase.name() == name);
    phase.ok_or_else(|| anyhow!("{USAGE}"))
}

/// What stands on stdin before the mark of its end.
fn names() -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        if line == END {
            return Ok(names);
        }
        names.push(CString::new(line)?);
    }
    bail!("the list of names has no end")
}
