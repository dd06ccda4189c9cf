//! JSON to a tree. `serde_json` has no places, but a `RawValue` borrows from the text: its address
//! tells where it stands.

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Fault, MARK, Wrong};
use super::tree::{DEPTH, Entry, Node, Value};

pub(super) fn read(text: &str) -> Result<Node<'_>, Wrong> {
    node(text, raw(text)?, DEPTH)
}

/// The whole text, which is one value.
pub(super) fn raw(text: &str) -> Result<&RawValue, Wrong> {
    let content = text.strip_prefix(MARK).unwrap_or(text);
    serde_json::from_str(content).map_err(|error| {
        let at = place(text, content) + offset(content, error.line(), error.column());
        let rest = text.get(at..).unwrap_or_default();
        let words = ["NaN", "nan", "Infinity", "inf"];
        let fault = match words.iter().find(|word| rest.starts_with(**word)) {
            Some(word) => Fault::NotANumber((*word).into()),
            None => syntax(&error),
        };
        Wrong::new(at, "", fault)
    })
}

fn node<'t>(text: &'t str, raw: &'t RawValue, depth: usize) -> Result<Node<'t>, Wrong> {
    let json = raw.get();
    let at = place(text, json);
    // What was skipped as sound can still be wrong inside: half a surrogate pair, say.
    let wrong = |error: serde_json::Error| Wrong::new(at, "", syntax(&error));
    let value = match json.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Value::Other("a deeper table"),
        Some(b'{') => {
            let Pairs(pairs) = serde_json::from_str(json).map_err(wrong)?;
            let entry = |(key, value): (&'t RawValue, &'t RawValue)| {
                Ok(Entry {
                    at: place(text, key.get()),
                    key: Cow::Owned(serde_json::from_str::<String>(key.get()).map_err(wrong)?),
                    node: node(text, value, depth - 1)?,
                })
            };
            Value::Table(pairs.into_iter().map(entry).collect::<Result<_, _>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).map_err(wrong)?;
            let items = items.into_iter().map(|item| node(text, item, depth - 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Some(b'"') => Value::Text(Cow::Owned(
            serde_json::from_str::<String>(json).map_err(wrong)?,
        )),
        Some(b't' | b'f') => Value::Other("a boolean"),
        Some(b'n') => Value::Other("null"),
        _ => Value::Number(Cow::Borrowed(json)),
    };
    Ok(Node { at, value })
}

/// Where in `text` its `part` starts, in bytes.
pub(super) fn place(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// What `error` says, without the place that it appends.
pub(super) fn syntax(error: &serde_json::Error) -> Fault {
    let said = format!("{error}");
    let said = said.split(" at line ").next().unwrap_or(&said).to_owned();
    Fault::Syntax {
        format: "JSON",
        said,
    }
}

/// The byte at `column` bytes into `line`, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    lines.map(str::len).sum::<usize>() + column.saturating_sub(1)
}

/// The keys and values of an object, in order, each key as often as it is there.
struct Pairs<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for Pairs<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'t> Visitor<'t> for PairsVisitor {
            type Value = Pairs<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Pairs<'t>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}
