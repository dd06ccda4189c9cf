//! A periodic neural-network-like workload in plain CUDA.
//!
//! It is what rtswap is demonstrated on, and it knows nothing of rtswap.

mod calls;
mod chunk;
mod cli;
mod copy;
mod failure;
mod gpu;
mod lane;
mod periodic;
mod reference;
mod report;
mod text;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

use crate::cli::Options;
use crate::failure::Failure;
use crate::gpu::{Gpu, Memory};
use crate::periodic::{Job, Releases};
use crate::report::Report;

fn main() -> ExitCode {
    let end = |name: &str, failure: Failure| {
        eprintln!("{name}: {failure}");
        ExitCode::from(failure.exit_code())
    };
    let options = match Options::of_process() {
        Ok(options) => options,
        Err(failure) => return end("dnn", failure),
    };
    let ended = match (options.copy, &options.calls) {
        _ if options.info => info(),
        (Some(copies), _) => copy::run(&options, copies),
        (None, Some(sizes)) => calls::run(&options, sizes),
        (None, None) => run(&options),
    };
    ended.unwrap_or_else(|failure| end(&options.name, failure))
}

fn info() -> Result<ExitCode, Failure> {
    println!("{}", json!({ "version": 1, "gpus": gpu::list()? }));
    Ok(ExitCode::SUCCESS)
}

/// The network: weights by layer, the activations and the place of their checksum.
struct Network<'gpu> {
    gpu: &'gpu Gpu,
    layers: Vec<Memory<'gpu>>,
    activations: Memory<'gpu>,
    sum: Memory<'gpu>,
    seed: u32,
    passes: u32,
    expected: u64,
}

impl<'gpu> Network<'gpu> {
    /// Allocates and fills the weights.
    fn load(gpu: &'gpu Gpu, options: &Options) -> Result<Self, Failure> {
        let sizes = reference::layer_words(options.memory, options.layers);
        let mut layers = Vec::with_capacity(sizes.len());
        for (layer, &words) in sizes.iter().enumerate() {
            let what = format!(
                "layer {layer} of {} ({} bytes in all)",
                sizes.len(),
                options.memory
            );
            let weights = gpu.allocate(words, &what)?;
            gpu.fill(&weights, reference::layer_seed(options.seed, layer))?;
            layers.push(weights);
        }
        let activations = gpu.allocate(reference::WIDTH, "the activations")?;
        let sum = gpu.allocate(2, "the checksum")?;
        gpu.synchronize()?;
        Ok(Self {
            gpu,
            layers,
            activations,
            sum,
            seed: options.seed,
            passes: options.work,
            expected: reference::expected(options.seed, &sizes, options.work),
        })
    }

    /// Runs the job released at `release`.
    fn job(&self, release: Instant) -> Result<Job, Failure> {
        self.gpu.fill(&self.activations, self.seed)?;
        let accepted = Instant::now();
        for _ in 0..self.passes {
            for weights in &self.layers {
                self.gpu.layer(&self.activations, weights)?;
            }
        }
        let correct = self.gpu.checksum(&self.sum, &self.activations)? == self.expected;
        let completion = Instant::now();
        Ok(Job {
            response: completion - release,
            execution: completion - accepted,
            correct,
        })
    }
}

/// The bytes of the weights that take, with all else, so many per cent of what the driver says is free.
fn weights_of(gpu: &Gpu, percent: u64, layers: u64) -> Result<u64, Failure> {
    /// The driver's alignment, which each object costs at most.
    const ALIGNMENT: u64 = 512;
    let free = gpu::free_bytes(gpu)?;
    let taken = free / 100 * percent;
    eprintln!("takes {taken} of {free} bytes");
    let others = reference::WIDTH * 4 + (layers + 2) * ALIGNMENT;
    Ok(taken.saturating_sub(others))
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    options.check()?;
    let gpu = Gpu::open(options.gpu)?;
    let mut options = options.clone();
    if let Some(percent) = options.share {
        options.memory = weights_of(&gpu, percent, options.layers)?;
        options.check()?;
    }
    let options = &options;
    let network = Network::load(&gpu, options)?;
    let mut releases = Releases::new(Instant::now() + options.phase, options.period);

    let mut warmup = Vec::new();
    for _ in 0..options.warmup {
        warmup.push(network.job(releases.wait())?);
    }
    let counted = Instant::now();
    let mut jobs = Vec::new();
    while options.jobs.is_none_or(|limit| (jobs.len() as u64) < limit)
        && options
            .duration
            .is_none_or(|limit| counted.elapsed() < limit)
    {
        let job = network.job(releases.wait())?;
        if options.times {
            let response = job.response.as_micros();
            let wait = job.response.saturating_sub(job.execution).as_micros();
            let result = if job.correct { "right" } else { "wrong" };
            eprintln!("times {wait} {response} {result}");
        }
        jobs.push(job);
        if options.progress {
            eprintln!("job {}", jobs.len());
        }
    }

    let report = Report::new(
        &options.name,
        options.deadline(),
        &warmup,
        &jobs,
        releases.drift(),
    );
    if options.json {
        println!(
            "{}",
            serde_json::to_string(&report).expect("a report is plain JSON")
        );
    } else {
        println!("{report}");
    }
    if options.hold {
        // However it ends, it has ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
    }
    Ok(ExitCode::from(u8::from(report.checksum_errors > 0)))
}
