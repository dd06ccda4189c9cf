//! `conformance`: asks the driver that `libcuda.so.1` is what rtswap believes of it. Without options all cases are run
//! and shown; exit codes: 0 nothing differs, 1 something does, 2 bad input or no driver.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use rtswap_conformance::case::{Case, Outcome, Row};
use rtswap_conformance::{cases, run};

/// Asks the CUDA driver what rtswap believes of it.
#[derive(Parser)]
#[command(name = "conformance")]
struct Cli {
    /// Only cases whose name begins so.
    beginnings: Vec<String>,
    /// Print each row as a line of JSON, as soon as there is one.
    #[arg(long)]
    json: bool,
    /// Ask nothing, print the names of the cases.
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Run these cases here and print a row for each: what the program starts itself for.
    #[arg(long, hide = true, num_args = 1.., conflicts_with_all = ["beginnings", "json", "list"])]
    worker: Vec<String>,
    /// Be the other process of a case: what the program starts itself for.
    #[arg(long, hide = true, num_args = 1.., conflicts_with_all = ["beginnings", "json", "list", "worker"])]
    role: Vec<String>,
}

fn main() -> ExitCode {
    match ask(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn ask(cli: &Cli) -> Result<ExitCode> {
    if let [role, arguments @ ..] = &cli.role[..] {
        cases::play(role, arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !cli.worker.is_empty() {
        run::worker(&cli.worker)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |case: &Case| {
        cli.beginnings.is_empty()
            || cli
                .beginnings
                .iter()
                .any(|beginning| case.name.starts_with(beginning))
    };
    let cases: Vec<Case> = cases::all().filter(wanted).collect();
    if cases.is_empty() {
        bail!("no case's name begins so");
    }
    if cli.list {
        for case in &cases {
            println!("{}", case.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let rows = run::all(&cases, |row| {
        let text = if cli.json {
            serde_json::to_string(row)?
        } else {
            line(row)
        };
        let mut out = stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    })?;
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    eprintln!(
        "{} agree, {} differ, {} skipped",
        count(Outcome::Agrees),
        count(Outcome::Differs),
        count(Outcome::Skipped)
    );
    Ok(ExitCode::from(u8::from(count(Outcome::Differs) > 0)))
}

fn line(row: &Row) -> String {
    let outcome = match row.outcome {
        Outcome::Agrees => "agrees",
        Outcome::Differs => "DIFFERS",
        Outcome::Skipped => "skipped",
    };
    let Row {
        name,
        basis,
        source,
        seen,
        ..
    } = row;
    format!("{outcome:8} {name:40} {seen}  [{basis}: {source}]")
}
