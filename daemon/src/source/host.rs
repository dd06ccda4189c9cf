//! The machine's own memory, from the kernel's files.

use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rtswap_engine::sample::HostSample;
use rtswap_policy::units::{Bytes, Ppm};

use crate::sys::clock::now;

use super::cgroups::Cgroups;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

const MEMORY: &str = "/proc/meminfo";
/// Not there where the kernel is built, or was started, without pressure stall information.
const PRESSURE: &str = "/proc/pressure/memory";

/// What the last look saw, for the next one.
#[derive(Debug)]
pub struct Host {
    looked: Instant,
    /// The µs since boot in which some process waited for memory.
    stalled: Option<u64>,
    cgroups: Arc<Cgroups>,
}

impl Host {
    /// Begins to look, at these cgroups too: waits of processes count from now on.
    pub fn begin(cgroups: Arc<Cgroups>) -> Self {
        Self {
            looked: Instant::now(),
            stalled: stalled(),
            cgroups,
        }
    }

    /// Looks. None where the kernel does not tell.
    pub fn look(&mut self) -> Option<HostSample> {
        let looked = now();
        let text = fs::read_to_string(MEMORY).ok()?;
        let (before, waited_before) = (self.looked, self.stalled);
        (self.looked, self.stalled) = (Instant::now(), stalled());
        let span = (self.looked - before).as_micros();
        // A moment shows nothing: all of it may be one wait.
        let is_long = span >= PERIOD.as_micros() / 2;
        let waited = self.stalled.zip(waited_before).filter(|_| is_long);
        let waited = waited.map_or(0, |(now, before)| now.saturating_sub(before));
        let part = (u128::from(waited) * 1_000_000)
            .checked_div(span)
            .unwrap_or(0);
        Some(HostSample {
            looked,
            total: bytes_of(&text, "MemTotal:")?,
            available: bytes_of(&text, "MemAvailable:")?,
            stalled: Ppm(u32::try_from(part).map_or(1_000_000, |part| part.min(1_000_000))),
            cgroups: self.cgroups.look(),
        })
    }
}

/// Starts a thread that looks each second, until `deliver`, which takes a sample, wants no more.
pub fn spawn(
    mut host: Host,
    mut deliver: impl FnMut(HostSample) -> bool + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new().name("host".into()).spawn(move || {
        loop {
            thread::sleep(PERIOD);
            if let Some(sample) = host.look()
                && !deliver(sample)
            {
                return;
            }
        }
    })?;
    Ok(())
}

fn bytes_of(meminfo: &str, name: &str) -> Option<Bytes> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Bytes(kib << 10))
}

fn stalled() -> Option<u64> {
    total_of(&fs::read_to_string(PRESSURE).ok()?)
}

fn total_of(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    let total = some
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let memory = "MemTotal:       24066924 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(bytes_of(memory, "MemAvailable:"), Some(Bytes(2 << 20)));
        assert_eq!(bytes_of(memory, "Nothing:"), None);
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=153765\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=82899\n";
        assert_eq!(total_of(pressure), Some(153_765));
        assert_eq!(total_of("full total=3\n"), None);
    }

    #[test]
    fn this_machine_has_memory_and_some_of_it_is_available() {
        let sample = Host::begin(Cgroups::find())
            .look()
            .expect("the kernel tells");
        assert!(Bytes::ZERO < sample.available && sample.available < sample.total);
        assert!(sample.stalled <= Ppm::ONE);
    }
}
