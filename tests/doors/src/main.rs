//! `doors`: tries every probe and says what came of it. `cargo xtask doors` builds what it needs.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use rtswap_doors::build::Programs;
use rtswap_doors::check::Outcome;
use rtswap_doors::ran::{self, Ran};
use rtswap_doors::stub::{self, Stub};
use rtswap_doors::suite::Tried;
use rtswap_doors::{names, report, suite, table};
use rtswap_e2e::{Machine, MachineOptions};

/// Tries every door of the driver under the agent, over the simulated GPU.
#[derive(Parser)]
#[command(name = "doors")]
struct Cli {
    /// Only the probes whose name begins so.
    prefixes: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Try nothing, print the matrix of docs/doors.md.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Try nothing, list what is compiled for tests/gpu as JSON.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    programs: bool,
    /// Run the probes under this command, such as "valgrind -q --error-exitcode=9".
    #[arg(long, value_name = "COMMAND", default_value = "")]
    under: String,
    /// How many at a time.
    #[arg(long, default_value_t = 2)]
    at_once: usize,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(names) if names.is_empty() => ExitCode::SUCCESS,
        Ok(names) => {
            eprintln!("doors: not as expected: {}", names.join(", "));
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("doors: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The names of the probes that did not come out as expected, and of hooks that ran nowhere.
fn run(cli: &Cli) -> Result<Vec<String>> {
    if cli.markdown {
        let machine = Machine::new(MachineOptions::default())?;
        let hooked = names::hooked(&machine.binary("librtswap_cuda.so"))?;
        print!("{}", report::markdown(&hooked));
        return Ok(Vec::new());
    }
    if cli.programs {
        println!("{}", report::programs());
        return Ok(Vec::new());
    }
    let mut probes = table::all();
    if !cli.prefixes.is_empty() {
        let wanted = |name: &str| cli.prefixes.iter().any(|prefix| name.starts_with(prefix));
        probes.retain(|probe| wanted(&probe.name()));
    }
    ensure!(!probes.is_empty(), "no probe's name begins so");
    let machine = Machine::new(MachineOptions::default())?;
    let programs = Programs::compile(&probes, &machine.driver_dir())?;
    let under: Vec<String> = cli.under.split_whitespace().map(String::from).collect();
    let tried = suite::run(&probes, &programs, cli.at_once, &under);
    let ran = Ran {
        simgpu: ran::read(&programs.ran())?,
        ..on_stub(&machine)?
    };
    if cli.json {
        println!("{}", report::json(&tried, &ran));
        eprint!("{}", report::unexpected(&tried));
    } else {
        print!("{}{}", report::table(&tried), report::hooks(&ran));
    }
    let unexpected = tried.iter().filter(|tried| !tried.is_as_expected());
    let unexpected = unexpected.map(|tried| tried.probe.name());
    let never = ran.never().into_iter().cloned();
    let mut names: Vec<String> = unexpected.chain(never).collect();
    if cli.prefixes.is_empty() && under.is_empty() {
        let skipped = |tried: &Tried| tried.outcome == Outcome::Skipped;
        names.extend(ran.unexpected(!tried.iter().any(skipped)));
    }
    Ok(names)
}

/// The hooks that hand calls on to the stub.
fn on_stub(machine: &Machine) -> Result<Ran> {
    let hooked = names::hooked(&machine.binary("librtswap_cuda.so"))?;
    let stub = Stub::compile(&hooked)?;
    let made = stub::calls(stub.command(machine, "fail"))?;
    Ok(Ran {
        hooked,
        simgpu: BTreeSet::new(),
        stub: ran::handed_on(&made, |name| stub.failure(name))?,
    })
}
