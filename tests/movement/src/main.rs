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

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use rtswap_conformance::gpu::Gpu;

use crate::report::{Line, Size, Teller, tell};

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
    /// Measure how memory moves, and print a line of JSON for each figure as it comes.
    Measure(Options),
    /// Have the driver take so much off the GPU and bring it back, and print that as JSON; its calls have no bound.
    Checkpoint {
        /// How many.
        chunks: u64,
        /// MiB of each.
        chunk_mib: u64,
    },
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
        Command::Checkpoint { chunks, chunk_mib } => {
            checkpoint::take(*chunks, *chunk_mib).and_then(|line| tell(&line))
        }
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
    let mut teller = Teller::default();
    let mut sizes = Vec::new();
    // Raw and swapped, both ways, in up to two processes: an eighth of what is free is enough for each.
    let total_mib = options.total_mib.min(gpu.free_bytes()? as u64 / MIB / 8);
    let chunks_mib = options.chunks_mib.iter().copied();
    for chunk_mib in chunks_mib.filter(|chunk_mib| *chunk_mib <= total_mib) {
        let measured = size(&gpu, options, &mut teller, total_mib / chunk_mib, chunk_mib)?;
        tell(&Line::Size(measured.clone()))?;
        sizes.push(measured);
    }
    let smallest = options.chunks_mib.iter().min().copied().unwrap_or_default();
    let chosen = report::choose(&sizes).with_context(|| {
        format!(
            "of {total_mib} MiB, an eighth of what is free at most, in chunks from {smallest} MiB no copies \
             and swaps were measured"
        )
    });
    if let Some(chosen) = teller.measured("chosen chunk", chosen)? {
        let (chosen_chunk_mib, chunks) = (chosen.chunk_mib, chosen.chunks);
        tell(&Line::Chosen {
            chosen_chunk_mib,
            chunks,
        })?;
    }
    // What the GPU does without the agent can be measured in any case.
    if let Some(Size {
        chunk_mib, chunks, ..
    }) = report::choose(&sizes).or(sizes.last())
    {
        later(&gpu, options, &mut teller, *chunks, *chunk_mib)?;
    }
    ensure!(
        teller.missing() == 0,
        "{} figures are missing",
        teller.missing()
    );
    Ok(())
}

/// All there is for one chunk size.
fn size(
    gpu: &Gpu,
    options: &Options,
    teller: &mut Teller,
    chunks: u64,
    chunk_mib: u64,
) -> Result<Size> {
    eprintln!("{chunks} chunks of {chunk_mib} MiB");
    let chunk = (chunk_mib * MIB) as usize;
    let raw = || raw::Buffers::new(gpu, chunks as usize * chunk)?.copy(chunk, options.rounds);
    let swap = || swap::alone(gpu, options, chunks, chunk_mib);
    let name = |what: &str| format!("{chunk_mib} MiB, {what}");
    Ok(Size {
        chunk_mib,
        chunks,
        raw: teller.measured(&name("raw"), raw())?,
        swap: teller.measured(&name("swap"), swap())?,
        calls_us: teller.measured(&name("calls"), calls::of_chunk(gpu, chunk))?,
    })
}

/// What is measured at one chunk size only.
fn later(
    gpu: &Gpu,
    options: &Options,
    teller: &mut Teller,
    chunks: u64,
    chunk_mib: u64,
) -> Result<()> {
    eprintln!("both ways at once, {chunk_mib} MiB");
    let chunk = (chunk_mib * MIB) as usize;
    let bytes = chunks as usize * chunk;
    let buffers = raw::Buffers::new(gpu, bytes);
    if let Some(buffers) = teller.measured("buffers for both ways", buffers)? {
        let duplex = buffers.duplex(chunk, options.rounds);
        if let Some(raw_duplex) = teller.measured("ρ of plain copies", duplex)? {
            tell(&Line::RawDuplex { raw_duplex })?;
        }
        let inflation = load::inflation(gpu, &buffers);
        if let Some(kernel_inflation) = teller.measured("a kernel beside copies", inflation)? {
            tell(&Line::Inflation { kernel_inflation })?;
        }
    }
    let fingerprint = calls::fingerprint(gpu, bytes, options.rounds);
    if let Some(fingerprint_gib_per_s) = teller.measured("fingerprint", fingerprint)? {
        tell(&Line::Fingerprint {
            fingerprint_gib_per_s,
        })?;
    }
    let duplex = swap::duplex(gpu, options, chunks, chunk_mib);
    if let Some(swap_duplex) = teller.measured("ρ of two agents", duplex)? {
        tell(&Line::SwapDuplex { swap_duplex })?;
    }
    Ok(())
}
