//! `driver`: fetches the drivers' libraries and makes all checks. `cargo xtask driver` builds what it needs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use rtswap_driver_tests::check::{self, Bench};
use rtswap_driver_tests::report::Row;
use rtswap_driver_tests::{bindings, debian};

/// Compares NVIDIA's own driver libraries, without a GPU, with what rtswap and simgpu take them for.
#[derive(Parser)]
#[command(name = "driver")]
struct Cli {
    /// Where the libraries lie and are fetched to.
    #[arg(long)]
    folder: PathBuf,
    /// Compare with what lies there, and fetch nothing.
    #[arg(long)]
    offline: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("driver: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is as it should be.
fn run(cli: &Cli) -> Result<bool> {
    let mut skipped = Vec::new();
    if !cli.offline {
        skipped = debian::fetch(&cli.folder)?;
        if let Err(error) = bindings::fetch(&cli.folder) {
            skipped.push(debian::skipped("fetching cuda-bindings", &error));
        }
    }
    for line in &skipped {
        eprintln!("{line}");
    }
    let bench = Bench::new(&cli.folder)?;
    if bench.drivers.is_empty() {
        eprintln!(
            "SKIPPED all comparisons with real drivers: there is none in {}",
            cli.folder.display()
        );
    }
    let mut rows: Vec<Row> = Vec::new();
    check::all(&bench, |row| {
        if !cli.json {
            println!("{row}");
        }
        rows.push(row);
    })?;
    let faults: usize = rows.iter().map(|row| row.faults.len()).sum();
    if cli.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else {
        let names = bench.drivers.iter().map(|library| library.name.as_str());
        let names: Vec<_> = names.collect();
        println!(
            "{} libraries ({}), {} checks: {faults} faults",
            names.len(),
            names.join(", "),
            rows.len()
        );
    }
    Ok(faults == 0)
}
