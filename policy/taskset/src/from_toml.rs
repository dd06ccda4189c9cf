//! TOML to a tree.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Fault, MARK, Wrong};
use super::tree::{DEPTH, Entry, Node, Value};

pub(super) fn read(text: &str) -> Result<Node<'_>, Wrong> {
    // No TOML begins so.
    let content = text.trim_start_matches(MARK).trim_start();
    if content.starts_with('{') {
        let at = text.len() - content.len();
        return Err(Wrong::new(at, "", Fault::LooksLikeJson));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let said = match error.message().trim_end() {
            "duplicate key" => "duplicate key; write it once, and [[task]] before each task".into(),
            said => said.to_owned(),
        };
        Wrong::new(
            at,
            "",
            Fault::Syntax {
                format: "TOML",
                said,
            },
        )
    })?;
    Ok(Node {
        at: 0,
        value: Value::Table(entries(table.into_inner(), DEPTH)),
    })
}

fn entries<'t>(table: DeTable<'t>, depth: usize) -> Vec<Entry<'t>> {
    let entry = |(key, value): (Spanned<Cow<'t, str>>, _)| Entry {
        at: key.span().start,
        key: key.into_inner(),
        node: node(value, depth - 1),
    };
    let mut entries: Vec<_> = table.into_iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn node(value: Spanned<DeValue<'_>>, depth: usize) -> Node<'_> {
    let at = value.span().start;
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) if number.radix() == 10 => {
            Value::Number(Cow::Owned(number.as_str().to_owned()))
        }
        DeValue::Integer(number) => Value::Number(Cow::Owned(format!("{number}"))),
        DeValue::Float(number) => Value::Number(Cow::Owned(number.as_str().to_owned())),
        DeValue::Boolean(_) => Value::Other("a boolean"),
        DeValue::Datetime(time) => Value::Date(time),
        DeValue::Array(_) | DeValue::Table(_) if depth == 0 => Value::Other("a deeper table"),
        DeValue::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| node(item, depth - 1))
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(entries(table, depth)),
    };
    Node { at, value }
}
