//! What the agent wrote with `RTSWAP_RECORD`: one JSON object a line.

use std::collections::BTreeMap;

use rtswap_policy::units::{Bytes, Nanos};
use serde_json::Value;

use super::{Allocation, AllocationKind};

/// The version of the lines.
const VERSION: u64 = 1;

/// What one process did on the GPU where it had the most jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// δ in bytes.
    pub chunk: Bytes,
    /// All jobs, in the order of their ends.
    pub jobs: Vec<SeenJob>,
    /// In order; of each size and kind the most that were there at once.
    pub allocations: Vec<Allocation>,
}

/// A job as its agent wrote it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenJob {
    /// Of a declared job that has one.
    pub name: Option<String>,
    /// Whether the program declared it.
    pub declared: bool,
    /// When it was asked for, by CLOCK_MONOTONIC.
    pub requested: Nanos,
    /// From grant to completion.
    pub execution: Nanos,
    /// In the arena at its end, swapped or not.
    pub arena: Bytes,
    /// Beside the arena at its end.
    pub unswappable: Bytes,
    /// The most that the process had held by then, contexts included.
    pub peak: Bytes,
}

/// A line that no agent writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the record: {said}")]
pub struct RecordError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub said: String,
}

/// What is gathered of one GPU.
#[derive(Default)]
struct Gathered {
    chunk: u64,
    jobs: Vec<SeenJob>,
    /// How many there are now, and the most that there were.
    allocations: BTreeMap<(u64, AllocationKind), (u64, u64)>,
}

impl Record {
    /// Reads the record of one process. None if it had no job. A program that became another one by `exec` begins anew;
    /// a last line without its end is left out.
    pub fn read(text: &str) -> Result<Option<Self>, RecordError> {
        let mut gpus: BTreeMap<u64, Gathered> = BTreeMap::new();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (place, line) in whole.lines().enumerate() {
            let wrong = |said: String| RecordError {
                line: place + 1,
                said,
            };
            let fields: Value = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
            take(&mut gpus, &Line(&fields)).map_err(wrong)?;
        }
        let most = gpus.into_values().max_by_key(|gpu| gpu.jobs.len());
        let most = most.filter(|gpu| !gpu.jobs.is_empty());
        Ok(most.map(|gpu| Self {
            chunk: Bytes(gpu.chunk),
            allocations: gpu
                .allocations
                .into_iter()
                .map(|((bytes, kind), (_, count))| Allocation {
                    bytes: Bytes(bytes),
                    kind,
                    count,
                })
                .collect(),
            jobs: gpu.jobs,
        }))
    }

    /// The jobs that a profile is made of. The daemon counts all jobs after the first declared one; what was before
    /// it was loading. Where none is declared, loading lasts as long as the process holds more and more.
    pub fn counted(&self) -> &[SeenJob] {
        let declared = self.jobs.iter().position(|job| job.declared);
        let first = declared.unwrap_or_else(|| {
            let grew = |pair: &[SeenJob]| pair[0].peak < pair[1].peak;
            let growth = self.jobs.windows(2).rposition(grew);
            growth.map_or(1, |place| place + 2)
        });
        self.jobs.get(first..).unwrap_or_default()
    }
}

fn take(gpus: &mut BTreeMap<u64, Gathered>, line: &Line<'_>) -> Result<(), String> {
    let event = line.text("event")?;
    if event == "start" {
        gpus.clear();
        return match line.number("version")? {
            VERSION => Ok(()),
            other => Err(format!(
                "version {other} is not known; use the agent of this rtswapctl's version"
            )),
        };
    }
    if !matches!(event, "gpu" | "alloc" | "free" | "job") {
        return Err(format!("{event:?} is no event"));
    }
    let gpu = gpus.entry(line.number("gpu")?).or_default();
    match event {
        "gpu" => gpu.chunk = line.number("chunk_bytes")?,
        "job" => gpu.jobs.push(job(line)?),
        _ => {
            let (live, most) = gpu
                .allocations
                .entry((line.number("bytes")?, kind(line)?))
                .or_default();
            if event == "alloc" {
                *live += 1;
                *most = (*most).max(*live);
            } else {
                *live = live.saturating_sub(1);
            }
        }
    }
    Ok(())
}

fn kind(line: &Line<'_>) -> Result<AllocationKind, String> {
    let name = match line.text("kind")? {
        "arena" => "arena",
        _ => line.text("why")?,
    };
    let mut kinds = AllocationKind::ALL.into_iter();
    kinds
        .find(|kind| kind.name() == name)
        .ok_or_else(|| format!("{name:?} is no kind of an allocation"))
}

fn job(line: &Line<'_>) -> Result<SeenJob, String> {
    let (granted, completed) = (line.number("granted_ns")?, line.number("completed_ns")?);
    let execution = completed
        .checked_sub(granted)
        .ok_or_else(|| "the job ends before it begins".to_owned())?;
    let held = line
        .number("resident_bytes")?
        .saturating_add(line.number("swapped_bytes")?);
    Ok(SeenJob {
        name: line
            .0
            .get("name")
            .and_then(Value::as_str)
            .map(str::to_owned),
        declared: line.text("kind")? == "declared",
        requested: Nanos(line.number("requested_ns")?),
        execution: Nanos(execution),
        arena: Bytes(line.number("arena_bytes")?),
        unswappable: Bytes(line.number("unswappable_bytes")?),
        peak: Bytes(line.number("peak_bytes")?.max(held)),
    })
}

/// The fields of a line.
struct Line<'a>(&'a Value);

impl<'a> Line<'a> {
    fn text(&self, key: &str) -> Result<&'a str, String> {
        let text = self.0.get(key).and_then(Value::as_str);
        text.ok_or_else(|| format!("no text {key:?}"))
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        let number = self.0.get(key).and_then(Value::as_u64);
        number.ok_or_else(|| format!("no whole number {key:?}"))
    }
}
