//! How many bytes each query writes: all of the value and nothing behind it, since a program's variable is just as wide.
//!
//! The queries are tables by subject, of functions and their arguments (`query`), which are asked of a GPU with a little of
//! everything on it (`objects`) by `ask`. tests/queries.rs compares the tables with the functions that simgpu exports.

mod ask;
mod context;
mod device;
mod function;
mod graph;
mod memory;
mod objects;
mod pointer;
mod query;
mod refused;

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::exported;
use crate::gpu::Gpu;

use ask::check;
use objects::Objects;
use query::Value::{Out, Word};

pub use query::Query;
pub use refused::REFUSED;

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "width/pointer-attributes",
        "programs give a variable of the attribute's type; booleans are 32 bits wide in NVIDIA's library; where an address \
         has no such attribute, driver 580.159 leaves some of the places of cuPointerGetAttributes as they were",
        Shared(pointer::attributes),
    ),
    Case::documented(
        "width/device-queries",
        "Device Management and Primary Context Management, CUDA Driver API",
        Shared(device_queries),
    ),
    Case::documented(
        "width/context-queries",
        "Context, Stream, Event and Green Contexts Management, CUDA Driver API",
        Shared(context_queries),
    ),
    Case::documented(
        "width/memory-queries",
        "Memory and Virtual Memory Management and Stream Ordered Memory Allocator, CUDA Driver API",
        Shared(memory_queries),
    ),
    Case::documented(
        "width/function-queries",
        "Module, Library and Execution Control and Occupancy, CUDA Driver API",
        Shared(function_queries),
    ),
    Case::documented(
        "width/graph-queries",
        "Graph Management, CUDA Driver API",
        Shared(graph_queries),
    ),
];

/// The queries of all tables.
pub fn queries() -> impl Iterator<Item = &'static Query> {
    let tables = [
        device::QUERIES,
        context::QUERIES,
        memory::QUERIES,
        function::QUERIES,
        graph::QUERIES,
    ];
    tables.into_iter().flatten()
}

/// Asks the queries of a table. All must be answered, if the driver has them and what they are asked of. Names those that
/// were not.
fn ask_all(queries: &[Query], objects: &Objects) -> Result<String> {
    let mut told = String::new();
    for query in queries {
        let values = query.values(objects);
        let may_fail = query.may_refuse || values.is_none() || exported(query.name).is_null();
        let answered = match values {
            Some(values) => check(query.name, &values)?,
            None => false,
        };
        ensure!(answered || may_fail, "{} refuses the query", query.name);
        if !answered {
            write!(told, ", not {}", query.name)?;
        }
    }
    Ok(format!("{} queries{told}", queries.len()))
}

/// The same on a GPU with something to ask about.
fn ask_on(gpu: &Gpu, queries: &[Query]) -> Result<String> {
    let objects = Objects::new(gpu)?;
    let told = ask_all(queries, &objects);
    objects.end(gpu)?;
    told
}

/// How many attributes of `count` are answered; there must be `least` of them.
fn attributes(
    name: &str,
    numbers: impl Iterator<Item = usize>,
    least: usize,
    args: impl Fn(usize) -> Vec<query::Value>,
) -> Result<usize> {
    let mut known = 0;
    for number in numbers {
        known += usize::from(check(name, &args(number))?);
    }
    ensure!(known >= least, "{name} knows only {known}");
    Ok(known)
}

fn device_queries(gpu: &Gpu) -> Result<String> {
    let device = Word(gpu.device as usize);
    let known = attributes("cuDeviceGetAttribute", 1..=160, 100, |number| {
        vec![Out(4), Word(number), device]
    })?;
    let told = ask_on(gpu, device::QUERIES)?;
    Ok(format!("{told}, {known} attributes"))
}

fn context_queries(gpu: &Gpu) -> Result<String> {
    let limits = attributes("cuCtxGetLimit", 0..=8, 5, |limit| vec![Out(8), Word(limit)])?;
    let told = ask_on(gpu, context::QUERIES)?;
    Ok(format!("{told}, {limits} limits"))
}

fn memory_queries(gpu: &Gpu) -> Result<String> {
    ask_on(gpu, memory::QUERIES)
}

fn function_queries(gpu: &Gpu) -> Result<String> {
    let function = Word(gpu.kernel("fill")? as usize);
    let known = attributes("cuFuncGetAttribute", 0..=15, 8, |number| {
        vec![Out(4), Word(number), function]
    })?;
    let told = ask_on(gpu, function::QUERIES)?;
    Ok(format!("{told}, {known} attributes"))
}

fn graph_queries(gpu: &Gpu) -> Result<String> {
    ask_on(gpu, graph::QUERIES)
}

/// Prints the queries among the refused that are not.
pub(super) fn refuse() -> Result<()> {
    let _gpu = Gpu::open()?;
    for name in refused::answered() {
        println!("{name}");
    }
    Ok(())
}
