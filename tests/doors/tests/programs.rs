//! Programs that use much of the driver at random see the same bytes bare and while the agent takes all memory away between
//! every two of their calls.
#![allow(missing_docs)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, compile, tortures};

/// The variable that asks for more rounds, and the one that asks for a seed again.
const ROUNDS: &str = "RTSWAP_TEST_ROUNDS";
const SEED: &str = "RTSWAP_TEST_SEED";
/// The longest that a run may take, and that a round may add to it: some 30 ms on an idle machine.
const BOUND: Duration = Duration::from_mins(1);
const ROUND: Duration = Duration::from_secs(1);

/// Runs a program bare and under torture with one seed, which differs from run to run.
fn same_bytes(name: &str) -> Result<()> {
    let rounds = std::env::var(ROUNDS).unwrap_or_else(|_| "100".into());
    let seed = std::env::var(SEED).unwrap_or_else(|_| std::process::id().to_string());
    let bound = BOUND + ROUND * rounds.parse()?;
    let what = || format!("{name}, {SEED}={seed}, {rounds} rounds");
    let machine = Machine::new(MachineOptions {
        memory_mib: 64,
        link_gib_per_s: 16.0,
        ..MachineOptions::default()
    })?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let program = compile(
        &folder.join(format!("{name}.c")),
        &machine.path(""),
        &machine.driver_dir(),
    )?;
    let arguments = [seed.as_str(), rounds.as_str()];
    let mut bare = machine.command(&program);
    bare.args(arguments);
    let bare = Program::start(bare)?.finish(bound).with_context(what)?;
    ensure!(bare.status.success(), "{}: {}", what(), bare.stderr);
    ensure!(
        bare.stdout.lines().count().to_string() == rounds,
        "{}: {}",
        what(),
        bare.stdout
    );
    let daemon = machine.daemon()?;
    let mut tortured = machine.preloaded(&program);
    tortured
        .env("RTSWAP_TORTURE", "every-call")
        .env("RTSWAP_LOG", "debug")
        .args(arguments);
    let tortured = Program::start(tortured)?.finish(bound).with_context(what)?;
    ensure!(
        tortured.status.success(),
        "{}: {} {}",
        what(),
        tortured.stderr,
        daemon.stderr()
    );
    let both = bare.stdout.lines().zip(tortured.stdout.lines());
    let first = both.clone().position(|(bare, tortured)| bare != tortured);
    ensure!(
        first.is_none() && both.count().to_string() == rounds,
        "{}: other bytes in round {first:?}",
        what()
    );
    let left = tortures(&tortured.stderr);
    let turns = left.iter().filter(|bytes| **bytes > 0).count();
    ensure!(
        turns >= bare.stdout.lines().count(),
        "{}: something left only {turns} times",
        what()
    );
    Ok(())
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() -> Result<()> {
                same_bytes(stringify!($name))
            }
        )*
    };
}

programs! { batches captures copies events graphs green host_functions pairs priorities suballocations }
