//! The keys of a calibration, and the rules that its values obey.

use rtswap_policy::cost::{DirectionCost, SwapCost};

use super::{Calibration, MAX_COST, MAX_NOTES, RATE_LIMIT, date};
use crate::error::{Fault, TaskSetError, Wrong, unseen};
use crate::field::Field;
use crate::shape::{DIRECTION, SWAP_COST, chunk, direction, version};
use crate::table::{Key, Source, Table};
use crate::tree::{Entry, Node, Value};
use crate::{Format, MAX_NAME, from_toml};

const ROOT: &[Key] = &[
    Key::value("version", "1"),
    Key::value("gpu", "\"GPU-01234567-89ab-cdef-0123-456789abcdef\""),
    Key::value("name", "\"NVIDIA H200\""),
    Key::value("measured", "2026-11-27T13:00:00Z"),
    Key::value("chunk", "\"16MiB\""),
    Key::value("duplex", "0.93"),
    Key::table("swap_cost"),
    Key::table("measured_with"),
];

/// Reads a calibration, which is TOML. Rounded as by [`crate::parse`].
pub fn parse(text: &str) -> Result<Calibration, TaskSetError> {
    let root = from_toml::read(text);
    root.and_then(|root| read(&root, text))
        .map_err(|wrong| wrong.in_text(text))
}

fn read(root: &Node<'_>, text: &str) -> Result<Calibration, Wrong> {
    let source = Source {
        text,
        format: Format::Toml,
    };
    let root = Table::open(source, root, String::new(), ROOT)?;
    // Another version may have other keys, so that it goes before them.
    version(&root)?;
    root.check()?;
    let costs = root.need("swap_cost")?.table(SWAP_COST)?;
    Ok(Calibration {
        gpu: gpu(&root.need("gpu")?)?,
        name: root.get("name").map(|field| field.name()).transpose()?,
        measured: measured(&root.need("measured")?)?,
        chunk: chunk(&root.need("chunk")?)?,
        duplex: root.need("duplex")?.share()?,
        swap_cost: SwapCost {
            out: cost(&costs.need("out")?)?,
            in_: cost(&costs.need("in")?)?,
        },
        notes: root
            .get("measured_with")
            .map_or(Ok(Vec::new()), |field| notes(&field))?,
    })
}

pub(crate) fn gpu(field: &Field<'_, '_>) -> Result<String, Wrong> {
    let text = field.text()?;
    let digits = text
        .strip_prefix("GPU-")
        .or_else(|| text.strip_prefix("MIG-"))
        .unwrap_or_default();
    let is_sound = digits.len() == 36
        && digits.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    is_sound
        .then(|| text.to_owned())
        .ok_or_else(|| field.wrong(Fault::NotAGpu(text.to_owned())))
}

pub(crate) fn measured(field: &Field<'_, '_>) -> Result<u64, Wrong> {
    let time = match &field.node.value {
        Value::Date(time) => date::seconds(*time),
        _ => None,
    };
    time.ok_or_else(|| field.wrong(Fault::NotAMoment(field.example())))
}

fn cost(field: &Field<'_, '_>) -> Result<DirectionCost, Wrong> {
    let table = field.table(DIRECTION)?;
    let cost = direction(&table)?;
    for (key, time) in [("base_us", cost.base), ("per_chunk_us", cost.per_chunk)] {
        if time > MAX_COST {
            return Err(table.need(key)?.wrong(Fault::CostTooLong));
        }
    }
    if cost.bytes_per_second >= RATE_LIMIT << 30 {
        return Err(table.need("gib_per_s")?.wrong(Fault::TooFast));
    }
    Ok(cost)
}

fn notes(field: &Field<'_, '_>) -> Result<Vec<(String, String)>, Wrong> {
    let entries = field.entries()?;
    if entries.len() > MAX_NOTES {
        return Err(field.wrong(Fault::TooManyNotes(entries.len())));
    }
    let is_plain = |text: &str| text.chars().count() <= MAX_NAME && !text.chars().any(unseen);
    let note = |entry: &Entry<'_>| match &entry.node.value {
        Value::Text(text) | Value::Number(text) if is_plain(&entry.key) && is_plain(text) => {
            Ok((entry.key.to_string(), text.to_string()))
        }
        _ => Err(Wrong::new(entry.at, "measured_with", Fault::NotANote)),
    };
    entries.iter().map(note).collect()
}
