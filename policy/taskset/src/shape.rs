//! The keys of a task set, and the rules that its values obey.

use std::collections::BTreeMap;

use super::error::{Fault, Wrong, line};
use super::field::Field;
use super::number::Round;
use super::table::{Key, Source, Table};
use super::tree::Node;
use super::unit::Unit;
use super::{Format, GRANULARITY, Gpu, GraphTask, MAX_PERIOD, MAX_TASKS, RealtimeTask, TaskSet};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::task::{MemoryProfile, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm};

const VERSION: u64 = 1;

const ROOT: &[Key] = &[
    Key::value("version", "1"),
    Key::table("gpu"),
    Key::table("swap_cost"),
    Key::tables("task"),
];

const GPU: &[Key] = &[
    Key::value("memory", "\"24GiB\""),
    Key::value("chunk", "\"64MiB\""),
    Key::value("host_memory", "\"48GiB\""),
    Key::value("duplex", "0.8"),
    Key::value("drain_ms", "0.0"),
];

pub(super) const SWAP_COST: &[Key] = &[Key::table("out"), Key::table("in")];

pub(super) const DIRECTION: &[Key] = &[
    Key::value("base_us", "0.0"),
    Key::value("per_chunk_us", "73.6"),
    Key::value("gib_per_s", "12.08"),
];

const TASK: &[Key] = &[
    Key::value("name", "\"yolo-608\""),
    Key::value("period_ms", "4000.0"),
    Key::value("deadline_ms", "4000.0"),
    Key::value("wcet_ms", "63.0"),
    Key::value("footprint", "\"6.2GiB\""),
    Key::value("swappable", "\"5.2GiB\""),
    Key::value("graph", "\"model.json\""),
    Key::value("context", "\"500MiB\""),
];

/// What a task has that is not planned from a graph.
const MEASURED: [&str; 3] = ["wcet_ms", "footprint", "swappable"];

pub(super) fn read(root: &Node<'_>, text: &str, format: Format) -> Result<TaskSet, Wrong> {
    let source = Source { text, format };
    let root = Table::open(source, root, String::new(), ROOT)?;
    // Another version may have other keys, so that it goes before them.
    version(&root)?;
    root.check()?;
    let table = root.need("gpu")?.table(GPU)?;
    let gpu = gpu(&table)?;
    let swap_cost = match root.get("swap_cost") {
        Some(field) => swap_cost(&field.table(SWAP_COST)?)?,
        None => SwapCost::PAPER,
    };
    let (tasks, graphs) = tasks(&root, source)?;
    if graphs.is_empty()
        && let Some(limit) = table.get("host_memory")
    {
        return Err(limit.wrong(Fault::WithoutGraphs));
    }
    Ok(TaskSet {
        gpu,
        swap_cost,
        tasks,
        graphs,
    })
}

pub(super) fn version(root: &Table<'_, '_>) -> Result<(), Wrong> {
    let field = root.need("version")?;
    let (written, decimal) = field.decimal()?;
    match decimal.whole() {
        Some(VERSION) => Ok(()),
        _ => Err(field.wrong(Fault::Version {
            found: written.into(),
            instead: field.example(),
        })),
    }
}

fn gpu(table: &Table<'_, '_>) -> Result<Gpu, Wrong> {
    let memory = table.need("memory")?;
    let capacity = memory.some_size()?;
    let chunk = match table.get("chunk") {
        Some(field) => Some(chunk(&field)?),
        None => None,
    };
    let host_memory = match table.get("host_memory") {
        Some(field) => Some(field.some_size()?),
        None => None,
    };
    let least = chunk.unwrap_or(GRANULARITY);
    if capacity < least {
        return Err(memory.wrong(Fault::MemoryBelowChunk {
            memory: capacity,
            chunk: least,
        }));
    }
    let duplex = table
        .get("duplex")
        .map_or(Ok(Ppm::ONE), |field| field.share())?;
    let drain = table.get("drain_ms");
    let drain = drain.map_or(Ok(Nanos::ZERO), |field| field.time(Unit::Millis, Round::Up))?;
    Ok(Gpu {
        capacity,
        chunk,
        host_memory,
        duplex,
        drain,
        dispatch_latency: Nanos::ZERO,
    })
}

/// A size that CUDA maps.
pub(super) fn chunk(field: &Field<'_, '_>) -> Result<Bytes, Wrong> {
    match field.some_size()? {
        chunk if chunk.round_down(GRANULARITY) == chunk => Ok(chunk),
        chunk => Err(field.wrong(Fault::Chunk { chunk })),
    }
}

/// Both directions: one measured beside one of another machine would be no measurement.
fn swap_cost(table: &Table<'_, '_>) -> Result<SwapCost, Wrong> {
    let direction = |name| match table.get(name) {
        Some(field) => direction(&field.table(DIRECTION)?),
        None => Err(table.missing(name, Fault::OneDirection)),
    };
    if table.is_empty() {
        return Ok(SwapCost::PAPER);
    }
    Ok(SwapCost {
        out: direction("out")?,
        in_: direction("in")?,
    })
}

pub(super) fn direction(table: &Table<'_, '_>) -> Result<DirectionCost, Wrong> {
    Ok(DirectionCost {
        base: table.need("base_us")?.time(Unit::Micros, Round::Up)?,
        per_chunk: table.need("per_chunk_us")?.time(Unit::Micros, Round::Up)?,
        bytes_per_second: table.need("gib_per_s")?.rate()?,
    })
}

fn tasks(
    root: &Table<'_, '_>,
    source: Source<'_>,
) -> Result<(Vec<RealtimeTask>, Vec<GraphTask>), Wrong> {
    let none = |at| {
        let instead = root.example("task");
        Wrong::new(at, "task", Fault::NoTask(instead))
    };
    let Some(field) = root.get("task") else {
        return Err(none(source.text.trim_end().len()));
    };
    let items = field.tables()?;
    if items.is_empty() {
        return Err(field.wrong(Fault::NoTask(root.example("task"))));
    }
    if let Some(beyond) = items.get(MAX_TASKS) {
        let fault = Fault::TooManyTasks { tasks: items.len() };
        return Err(Wrong::new(beyond.at, "task", fault));
    }
    let mut names = BTreeMap::new();
    let mut tasks = Vec::with_capacity(items.len());
    let mut graphs = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let table = Table::new(source, item, format!("task[{place}]"), TASK)?;
        let name = table.need("name")?;
        let (task, graph) = task(&table, &name)?;
        if let Some(first) = names.insert(task.name.clone(), name.node.at) {
            return Err(name.wrong(Fault::DuplicateName {
                name: task.name,
                first: line(source.text, first),
            }));
        }
        graphs.extend(graph.map(|(file, context)| GraphTask {
            task: place,
            file,
            context,
        }));
        tasks.push(task);
    }
    Ok((tasks, graphs))
}

/// A task, and where it is planned from a graph its file and the size of its context.
fn task(
    table: &Table<'_, '_>,
    name: &Field<'_, '_>,
) -> Result<(RealtimeTask, Option<(String, Bytes)>), Wrong> {
    let name = name.name()?;
    let (period, deadline, key) = spans(table)?;
    let Some(graph) = table.get("graph") else {
        if let Some(context) = table.get("context") {
            return Err(context.wrong(Fault::WithoutGraph));
        }
        let task = RealtimeTask {
            name,
            timing: timing(table, period, deadline, key)?,
            memory: memory(table)?,
        };
        return Ok((task, None));
    };
    let file = graph.text()?;
    if file.is_empty() {
        return Err(graph.wrong(Fault::Missing(table.example("graph"))));
    }
    if let Some(field) = MEASURED.into_iter().find_map(|key| table.get(key)) {
        return Err(field.wrong(Fault::BesideGraph));
    }
    let context = table.need("context")?.size()?;
    let task = RealtimeTask {
        name,
        timing: Timing {
            period,
            deadline,
            wcet: Nanos::ZERO,
        },
        memory: MemoryProfile::default(),
    };
    Ok((task, Some((file.to_owned(), context))))
}

/// Period and deadline, and the key that the deadline comes from.
fn spans(table: &Table<'_, '_>) -> Result<(Nanos, Nanos, &'static str), Wrong> {
    let field = table.need("period_ms")?;
    let period = field.some_time(Unit::Millis, Round::Down)?;
    if period > MAX_PERIOD {
        let (number, _) = field.decimal()?;
        return Err(field.wrong(Fault::PeriodTooLong {
            number: number.into(),
        }));
    }
    let (deadline, key) = match table.get("deadline_ms") {
        Some(field) => {
            let deadline = field.some_time(Unit::Millis, Round::Down)?;
            if deadline > period {
                return Err(field.wrong(Fault::DeadlineBeyondPeriod { deadline, period }));
            }
            (deadline, "deadline_ms")
        }
        None => (period, "period_ms"),
    };
    Ok((period, deadline, key))
}

fn timing(
    table: &Table<'_, '_>,
    period: Nanos,
    deadline: Nanos,
    key: &'static str,
) -> Result<Timing, Wrong> {
    let field = table.need("wcet_ms")?;
    let wcet = field.some_time(Unit::Millis, Round::Up)?;
    if wcet > deadline {
        return Err(field.wrong(Fault::WcetBeyondDeadline {
            wcet,
            deadline,
            key,
        }));
    }
    Ok(Timing {
        period,
        deadline,
        wcet,
    })
}

pub(super) fn memory(table: &Table<'_, '_>) -> Result<MemoryProfile, Wrong> {
    let footprint = table.need("footprint")?.size()?;
    let field = table.need("swappable")?;
    let swappable = field.size()?;
    if swappable > footprint {
        return Err(field.wrong(Fault::SwappableBeyondFootprint {
            swappable,
            footprint,
        }));
    }
    Ok(MemoryProfile {
        footprint,
        swappable,
    })
}
