//! What the probes cost a call: `cost [ROUNDS] [LIBRARY…]`. Prints CPU ns of an allocation and a free together, with
//! the shipped programs: of functions that succeed at once, by how they begin and by what is counted; then
//! of drivers (the simulated GPU's, and each LIBRARY) whose functions refuse because there was no cuInit, without
//! probes, with probes at their starts, and where the daemon puts them. All of a table take turns in each
//! round, so that what else the machine does is in each of them. Needs root and a C compiler.

mod drivers;
mod subject;
mod ways;

use std::path::PathBuf;

use anyhow::Result;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds = match arguments.next() {
        Some(rounds) => rounds.parse()?,
        None => 200,
    };
    println!("CPU ns of an allocation and a free together, {rounds} rounds: the best, the median");
    ways::measure(rounds)?;
    let libraries: Vec<_> = arguments.map(PathBuf::from).collect();
    drivers::measure(rounds, &libraries)
}
