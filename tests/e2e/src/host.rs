//! The machine on which the tests run.

use std::fs;

use anyhow::{Context, Result};

/// The memory that programs can have without swapping to disk, in bytes, as the kernel estimates it.
pub fn available_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("the kernel tells what is available")? << 10)
}
