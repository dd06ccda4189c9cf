//! What the calls that give addresses memory take, chunk size by chunk size, in place of jobs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::chunk::{self, Range};
use crate::cli::Options;
use crate::failure::Failure;
use crate::gpu::Gpu;

/// How often each call is timed; the median counts.
const TIMES: usize = 21;

/// The report of one run.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    name: String,
    chunks: Vec<Calls>,
}

/// The medians for chunks of one size.
#[derive(Clone, Copy, Debug, Serialize)]
struct Calls {
    chunk_bytes: u64,
    create_us: f64,
    map_us: f64,
    access_us: f64,
    unmap_us: f64,
    release_us: f64,
}

/// Times the calls for chunks of each of these sizes.
pub(crate) fn run(options: &Options, sizes: &[u64]) -> Result<ExitCode, Failure> {
    let gpu = Gpu::open(options.gpu)?;
    let granularity = chunk::granularity(&gpu)?;
    if let Some(wrong) = sizes
        .iter()
        .find(|bytes| **bytes == 0 || !bytes.is_multiple_of(granularity))
    {
        let text = format!("--calls {wrong}: a chunk must be a multiple of {granularity} bytes");
        return Err(Failure::Input(text));
    }
    let chunks = sizes.iter().map(|bytes| Calls::time(&gpu, *bytes));
    let report = Report {
        version: 1,
        name: options.name.clone(),
        chunks: chunks.collect::<Result<_, _>>()?,
    };
    report.print(options.json);
    Ok(ExitCode::SUCCESS)
}

impl Calls {
    fn time(gpu: &Gpu, bytes: u64) -> Result<Self, Failure> {
        let range = Range::reserve(gpu, bytes)?;
        // The first time may be longer: the driver makes ready for that size.
        map_once(&range)?;
        let mut times: [Vec<Duration>; 5] = Default::default();
        for _ in 0..TIMES {
            let took = map_once(&range)?;
            for (times, took) in times.iter_mut().zip(took) {
                times.push(took);
            }
        }
        let [create_us, map_us, access_us, unmap_us, release_us] = times.map(median_us);
        Ok(Self {
            chunk_bytes: bytes,
            create_us,
            map_us,
            access_us,
            unmap_us,
            release_us,
        })
    }
}

/// Maps a chunk and takes it away again: how long create, map, set access, unmap and release took.
fn map_once(range: &Range<'_>) -> Result<[Duration; 5], Failure> {
    let (chunk, create) = timed(|| range.create())?;
    let ((), map) = timed(|| range.map(&chunk))?;
    let ((), access) = timed(|| range.set_access())?;
    let ((), unmap) = timed(|| range.unmap())?;
    let ((), release) = timed(|| chunk.release())?;
    Ok([create, map, access, unmap, release])
}

fn timed<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Duration), Failure> {
    let start = Instant::now();
    let value = call()?;
    Ok((value, start.elapsed()))
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

impl Report {
    fn print(&self, json: bool) {
        if json {
            let text = serde_json::to_string(self).expect("a report is plain JSON");
            println!("{text}");
            return;
        }
        println!(
            "{:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "bytes", "create", "map", "access", "unmap", "release"
        );
        for calls in &self.chunks {
            println!(
                "{:>12} {:>7.1} µs {:>7.1} µs {:>7.1} µs {:>7.1} µs {:>7.1} µs",
                calls.chunk_bytes,
                calls.create_us,
                calls.map_us,
                calls.access_us,
                calls.unmap_us,
                calls.release_us
            );
        }
    }
}
