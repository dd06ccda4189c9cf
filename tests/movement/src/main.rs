//! `movement`: how fast this GPU's memory moves, by plain pinned copies and by the agent, in one run.
//!
//! `raw` copies, `calls` times virtual memory calls and the fingerprint, `load` what copies cost a kernel, `swap` has the
//! agent move a `hold`er's memory, `checkpoint` has the driver do it, `report` is what is told.

mod calls;
mod checkpoint;
mod hold;
mod load;
mod raw;
mod report;
mod swap;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use rtswap_conformance::gpu::Gpu;

use crate::report::{Report, Size};

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Measures how fast this GPU's memory moves.
#[derive(Parser)]
#[command(name = "movement")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure everything and print JSON.
    Measure(Options),
    /// Hold so many chunks of so many MiB, for others to move.
    Hold {
        /// How many.
        chunks: u64,
        /// MiB of each.
        chunk_mib: u64,
    },
}

/// What is measured.
#[derive(clap::Args)]
struct Options {
    /// The agent's library.
    #[arg(long)]
    agent: PathBuf,
    /// Chunk sizes in MiB.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64,128,256")]
    chunks_mib: Vec<u64>,
    /// MiB that are moved in each measurement, at most.
    #[arg(long, default_value_t = 2048)]
    total_mib: u64,
    /// Rounds of each measurement; the best counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

fn main() -> ExitCode {
    let done = match &Cli::parse().command {
        Command::Measure(options) => measure(options),
        Command::Hold { chunks, chunk_mib } => hold::hold(*chunks, *chunk_mib),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("movement: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    let gpu = Gpu::open()?;
    let mut sizes = Vec::new();
    // Raw and swapped, both ways, in up to two processes: an eighth of what is free is enough for each.
    let total_mib = options.total_mib.min(gpu.free_bytes()? as u64 / MIB / 8);
    let chunks_mib = options.chunks_mib.iter().copied();
    for chunk_mib in chunks_mib.filter(|chunk_mib| *chunk_mib <= total_mib) {
        let chunks = total_mib / chunk_mib;
        eprintln!("{chunks} chunks of {chunk_mib} MiB");
        let chunk = chunk_mib * MIB;
        let buffers = raw::Buffers::new(&gpu, (chunks * chunk) as usize)?;
        let raw = buffers.copy(chunk as usize, options.rounds)?;
        drop(buffers);
        sizes.push(Size {
            chunk_mib,
            chunks,
            raw,
            swap: swap::alone(&gpu, options, chunks, chunk_mib)?,
            calls_us: calls::of_chunk(&gpu, chunk as usize)?,
        });
    }
    ensure!(
        !sizes.is_empty(),
        "an eighth of what is free, {total_mib} MiB, is less than a chunk"
    );
    let best = report::choose(&sizes);
    let (chunks, chunk_mib) = (best.chunks, best.chunk_mib);
    let bytes = (chunks * chunk_mib * MIB) as usize;
    eprintln!("both ways at once, {chunk_mib} MiB");
    let buffers = raw::Buffers::new(&gpu, bytes)?;
    let raw_duplex = buffers.duplex((chunk_mib * MIB) as usize, options.rounds)?;
    let kernel_inflation = load::inflation(&gpu, &buffers)?;
    drop(buffers);
    let report = Report {
        chosen_chunk_mib: chunk_mib,
        raw_duplex,
        swap_duplex: swap::duplex(&gpu, options, chunks, chunk_mib)?,
        fingerprint_gib_per_s: calls::fingerprint(&gpu, bytes, options.rounds)?,
        kernel_inflation,
        checkpoint: checkpoint::measure(chunks, chunk_mib),
        sizes,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
