//! The keys of a profile, and the rules that its values obey.

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::Nanos;

use super::{Allocation, AllocationKind, Execution, Jobs, Profile};
use crate::calibration::{gpu, measured};
use crate::error::{Fault, TaskSetError, Wrong};
use crate::field::Field;
use crate::number::Round;
use crate::shape::{chunk, memory, version};
use crate::table::{Key, Source, Table};
use crate::tree::Node;
use crate::unit::Unit;
use crate::{Format, MAX_PERIOD, from_toml};

const ROOT: &[Key] = &[
    Key::value("version", "1"),
    Key::value("name", "\"yolo-608\""),
    Key::value("measured", "2026-11-27T13:00:00Z"),
    Key::value("process", "\"camera\""),
    Key::value("program", "\"python3 infer.py\""),
    Key::value("jobs", "\"declared\""),
    Key::table("gpu"),
    Key::table("memory"),
    Key::table("period"),
    Key::table("execution"),
    Key::tables("allocation"),
];

const GPU: &[Key] = &[
    Key::value("uuid", "\"GPU-01234567-89ab-cdef-0123-456789abcdef\""),
    Key::value("name", "\"NVIDIA H200\""),
    Key::value("chunk", "\"16MiB\""),
];

const MEMORY: &[Key] = &[
    Key::value("footprint", "\"6.2GiB\""),
    Key::value("swappable", "\"5.2GiB\""),
];

const PERIOD: &[Key] = &[
    Key::value("median_ms", "33.3"),
    Key::value("shortest_ms", "33.1"),
];

const EXECUTION: &[Key] = &[
    Key::value("wcet_ms", "12.4"),
    Key::table("alone"),
    Key::table("loaded"),
];

const RUN: &[Key] = &[
    Key::value("count", "200"),
    Key::value("median_ms", "11.0"),
    Key::value("high", "0.99"),
    Key::value("high_ms", "12.1"),
    Key::value("max_ms", "12.4"),
    Key::value("quantile", "0.985"),
    Key::value("confidence", "0.95"),
];

const ALLOCATION: &[Key] = &[
    Key::value("bytes", "\"64MiB\""),
    Key::value("count", "3"),
    Key::value("kind", "\"arena\""),
];

/// Reads a profile, which is TOML. Times are rounded as by [`crate::parse`].
pub fn parse(text: &str) -> Result<Profile, TaskSetError> {
    let root = from_toml::read(text);
    root.and_then(|root| read(&root, text))
        .map_err(|wrong| wrong.in_text(text))
}

fn read(root: &Node<'_>, text: &str) -> Result<Profile, Wrong> {
    let source = Source {
        text,
        format: Format::Toml,
    };
    let root = Table::open(source, root, String::new(), ROOT)?;
    // Another version may have other keys, so that it goes before them.
    version(&root)?;
    root.check()?;
    let place = root.need("gpu")?.table(GPU)?;
    let period = root.need("period")?.table(PERIOD)?;
    let executions = root.need("execution")?.table(EXECUTION)?;
    let (alone, loaded) = (run(&executions, "alone")?, run(&executions, "loaded")?);
    Ok(Profile {
        name: root.need("name")?.name()?,
        measured: measured(&root.need("measured")?)?,
        process: root.get("process").map(|field| field.name()).transpose()?,
        program: root.need("program")?.name()?,
        jobs: one_of(&root.need("jobs")?, &Jobs::ALL.map(|it| (it.name(), it)))?,
        gpu: gpu(&place.need("uuid")?)?,
        gpu_name: place.get("name").map(|field| field.name()).transpose()?,
        chunk: chunk(&place.need("chunk")?)?,
        memory: memory_of(&root)?,
        period: (time(&period, "median_ms")?, time(&period, "shortest_ms")?),
        wcet: wcet(&executions, alone.max.max(loaded.max))?,
        alone,
        loaded,
        allocations: allocations(&root, source)?,
    })
}

fn memory_of(root: &Table<'_, '_>) -> Result<MemoryProfile, Wrong> {
    memory(&root.need("memory")?.table(MEMORY)?)
}

fn time(table: &Table<'_, '_>, key: &'static str) -> Result<Nanos, Wrong> {
    let field = table.need(key)?;
    let time = field.some_time(Unit::Millis, Round::Up)?;
    if time > MAX_PERIOD {
        let (number, _) = field.decimal()?;
        return Err(field.wrong(Fault::PeriodTooLong {
            number: number.into(),
        }));
    }
    Ok(time)
}

fn wcet(table: &Table<'_, '_>, seen: Nanos) -> Result<Nanos, Wrong> {
    let wcet = time(table, "wcet_ms")?;
    if wcet < seen {
        let field = table.need("wcet_ms")?;
        return Err(field.wrong(Fault::WcetBelowSeen { wcet, seen }));
    }
    Ok(wcet)
}

fn run(executions: &Table<'_, '_>, name: &'static str) -> Result<Execution, Wrong> {
    let table = executions.need(name)?.table(RUN)?;
    Ok(Execution {
        count: count(&table)?,
        median: time(&table, "median_ms")?,
        high: (table.need("high")?.share()?, time(&table, "high_ms")?),
        max: time(&table, "max_ms")?,
        quantile: table.need("quantile")?.share()?,
        confidence: table.need("confidence")?.share()?,
    })
}

/// At least one.
fn count(table: &Table<'_, '_>) -> Result<u64, Wrong> {
    let field = table.need("count")?;
    let (number, decimal) = field.decimal()?;
    match decimal.whole() {
        Some(count) if count > 0 => Ok(count),
        _ => Err(field.wrong(Fault::NotACount(number.into()))),
    }
}

fn allocations(root: &Table<'_, '_>, source: Source<'_>) -> Result<Vec<Allocation>, Wrong> {
    let Some(field) = root.get("allocation") else {
        return Ok(Vec::new());
    };
    let kinds = AllocationKind::ALL.map(|kind| (kind.name(), kind));
    let read = |(place, item)| {
        let table = Table::new(source, item, format!("allocation[{place}]"), ALLOCATION)?;
        Ok(Allocation {
            bytes: table.need("bytes")?.some_size()?,
            count: count(&table)?,
            kind: one_of(&table.need("kind")?, &kinds)?,
        })
    };
    field.tables()?.iter().enumerate().map(read).collect()
}

/// A word that means one of `known`.
fn one_of<T: Copy>(field: &Field<'_, '_>, known: &[(&'static str, T)]) -> Result<T, Wrong> {
    let word = field.text()?;
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        field.wrong(Fault::Word {
            word: word.to_owned(),
            known: names.join(" or "),
        })
    })
}
