//! What a killed process leaves, and when it is gone: by the driver's account and by NVML's.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nvml_wrapper::Nvml;

use super::other;
use crate::case::Body::{Alone, Shared};
use crate::case::{Case, Skipped};
use crate::expect;
use crate::gpu::{Gpu, hex};

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "death/memory-returns",
        "what a dead process held is capacity again within the 10 s that the daemon waits",
        Alone(returns),
    )
    .within(CASE),
    Case::relied(
        "death/nvml-forgets-the-process",
        "the ledger takes a process for gone when NVML does not show it",
        Alone(forgets),
    )
    .within(CASE),
    Case::relied(
        "death/free-by-both-accounts",
        "capacity comes from NVML, allocations from the driver: a byte free in one is free in the other",
        Shared(accounts),
    ),
];

const BYTES: usize = 24 << 20;
const BOUND: Duration = Duration::from_secs(10);
/// That of a case that waits so long, with its two processes.
const CASE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(1);

/// A process that holds memory until it is killed.
struct Holder(Child);

impl Holder {
    fn start() -> Result<Self> {
        let child = other("hold", &[&BYTES.to_string()])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut holder = Self(child);
        let mut line = String::new();
        let output = holder.0.stdout.take().context("piped")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == "held", "the holder said {line:?}");
        Ok(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that holds.
pub(super) fn hold(arguments: &[String]) -> Result<()> {
    let bytes: usize = arguments.first().context("no size")?.parse()?;
    let gpu = Gpu::open()?;
    // Half by each way.
    let at = gpu.alloc(bytes / 2)?;
    let granules = bytes / 2 / gpu.granule;
    let (range, handle) = (gpu.reserve(granules)?, gpu.create(granules)?);
    gpu.map(range.at, granules, handle)?;
    expect!(cuMemsetD8_v2(at, 1, bytes / 2))?;
    expect!(cuCtxSynchronize())?;
    println!("held");
    // Until it is killed, or who started it has ended.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

/// How long after a kill it takes until `is_so`.
fn after_kill(mut holder: Holder, mut is_so: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let start = Instant::now();
    holder.0.kill()?;
    holder.0.wait()?;
    while !is_so()? {
        ensure!(
            start.elapsed() < BOUND,
            "not within {BOUND:?} after the kill"
        );
        sleep(POLL);
    }
    Ok(start.elapsed())
}

fn returns(gpu: &Gpu) -> Result<String> {
    let before = gpu.free_bytes()?;
    let holder = Holder::start()?;
    let held = before.saturating_sub(gpu.free_bytes()?);
    ensure!(held >= BYTES, "{held} bytes are held, of {BYTES}");
    let took = after_kill(holder, || Ok(gpu.free_bytes()? >= before))?;
    Ok(format!("{} ms", took.as_millis()))
}

/// NVML, and the number there of the GPU that CUDA numbers 0.
fn nvml(gpu: &Gpu) -> Result<(Nvml, u32)> {
    // The CUDA toolkit's stub has the other name.
    let nvml = match Nvml::builder()
        .lib_path("libnvidia-ml.so.1".as_ref())
        .init()
    {
        Ok(nvml) => nvml,
        Err(error) => bail!(Skipped(format!("there is no NVML: {error}"))),
    };
    let mut uuid = [0; 16];
    expect!(cuDeviceGetUuid_v2(&raw mut uuid, gpu.device))?;
    let digits = hex(uuid);
    for index in 0..nvml.device_count()? {
        let text = nvml.device_by_index(index)?.uuid()?;
        if text.replace(['-', 'G', 'P', 'U'], "") == digits {
            return Ok((nvml, index));
        }
    }
    bail!(Skipped(
        "NVML does not show this GPU by its UUID (MIG?)".to_owned()
    ))
}

fn forgets(gpu: &Gpu) -> Result<String> {
    let (nvml, index) = nvml(gpu)?;
    let device = nvml.device_by_index(index)?;
    let holder = Holder::start()?;
    let pid = holder.0.id();
    let shows = || -> Result<bool> {
        let processes = device.running_compute_processes()?;
        Ok(processes.iter().any(|process| process.pid == pid))
    };
    let until = Instant::now() + Duration::from_secs(3);
    while !shows()? {
        if Instant::now() > until {
            bail!(Skipped(
                "NVML does not show this process: a PID namespace?".to_owned()
            ));
        }
        sleep(POLL);
    }
    let took = after_kill(holder, || Ok(!shows()?))?;
    Ok(format!("{} ms", took.as_millis()))
}

fn accounts(gpu: &Gpu) -> Result<String> {
    let (nvml, index) = nvml(gpu)?;
    let device = nvml.device_by_index(index)?;
    let at = gpu.alloc(BYTES)?;
    let (driver, said) = (gpu.free_bytes()? as u64, device.memory_info()?);
    gpu.free(at)?;
    let after = (gpu.free_bytes()? as u64, device.memory_info()?);
    let (by_driver, by_nvml) = (after.0 - driver, said.used - after.1.used);
    ensure!(
        by_driver >= BYTES as u64 && by_driver.abs_diff(by_nvml) <= BYTES as u64 / 8,
        "{by_driver} bytes came back by the driver, {by_nvml} by NVML"
    );
    Ok(format!(
        "{by_driver} and {by_nvml} bytes came back; free before that {driver} and {}",
        said.free
    ))
}
