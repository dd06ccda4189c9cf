//! Tables: which keys they may have, and what is missing.

use super::Format;
use super::error::{Fault, Wrong, line};
use super::nearest::nearest;
use super::tree::{Entry, Node, Value};

/// A key that a table may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) sort: Sort,
}

/// What belongs behind a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    /// A number or a text, such as this one.
    Value(&'static str),
    Table,
    Tables,
}

/// What is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    pub(super) format: Format,
}

/// A table that was checked: each of its keys is known and occurs once.
#[derive(Debug)]
pub(super) struct Table<'a, 't> {
    pub(super) source: Source<'t>,
    /// Empty for the whole text.
    path: String,
    at: usize,
    keys: &'static [Key],
    pub(super) entries: &'a [Entry<'t>],
}

impl Key {
    pub(super) const fn value(name: &'static str, example: &'static str) -> Self {
        Self {
            name,
            sort: Sort::Value(example),
        }
    }

    pub(super) const fn table(name: &'static str) -> Self {
        Self {
            name,
            sort: Sort::Table,
        }
    }

    pub(super) const fn tables(name: &'static str) -> Self {
        Self {
            name,
            sort: Sort::Tables,
        }
    }

    /// How it is written, with `path` before its name.
    pub(super) fn example(&self, path: &str, format: Format) -> String {
        let name = self.name;
        match (self.sort, format) {
            (Sort::Value(value), Format::Toml) => format!("{name} = {value}"),
            (Sort::Value(value), Format::Json) => format!("\"{name}\": {value}"),
            (Sort::Table, Format::Toml) => format!("[{}]", join(path, name)),
            (Sort::Table, Format::Json) => format!("\"{name}\": {{ … }}"),
            (Sort::Tables, Format::Toml) => format!("[[{}]]", join(path, name)),
            (Sort::Tables, Format::Json) => format!("\"{name}\": [{{ … }}]"),
        }
    }
}

impl<'a, 't> Table<'a, 't> {
    /// A table at `path` that may have `keys` and has no others.
    pub(super) fn new(
        source: Source<'t>,
        node: &'a Node<'t>,
        path: String,
        keys: &'static [Key],
    ) -> Result<Self, Wrong> {
        let table = Self::open(source, node, path, keys)?;
        table.check()?;
        Ok(table)
    }

    /// Opens a table without a check of its keys.
    pub(super) fn open(
        source: Source<'t>,
        node: &'a Node<'t>,
        path: String,
        keys: &'static [Key],
    ) -> Result<Self, Wrong> {
        let Value::Table(entries) = &node.value else {
            let fault = Fault::Kind {
                found: node.value.kind(),
                expected: "a table",
                example: format!("{{ {}, … }}", keys[0].example("", source.format)),
            };
            return Err(Wrong::new(node.at, &path, fault));
        };
        Ok(Self {
            source,
            path,
            at: node.at,
            keys,
            entries,
        })
    }

    /// That each key is known, and there once.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let mut entries = self.entries.iter().enumerate();
        entries.try_for_each(|(place, entry)| self.check_key(place, entry))
    }

    fn check_key(&self, place: usize, entry: &Entry<'t>) -> Result<(), Wrong> {
        let wrong = |fault| Err(Wrong::new(entry.at, &join(&self.path, &entry.key), fault));
        if !self.keys.iter().any(|key| key.name == entry.key) {
            let known: Vec<_> = self.keys.iter().map(|key| key.name).collect();
            return wrong(Fault::UnknownKey {
                meant: nearest(&entry.key, &known),
                known: known.join(", "),
            });
        }
        match self.entries[..place]
            .iter()
            .find(|other| other.key == entry.key)
        {
            Some(first) => wrong(Fault::Twice(line(self.source.text, first.at))),
            None => Ok(()),
        }
    }

    /// `fault`, because `name` is not there.
    pub(super) fn missing(&self, name: &str, fault: Fault) -> Wrong {
        Wrong::new(self.at, &self.path_of(name), fault)
    }

    /// How `name` is written when it is written well.
    pub(super) fn example(&self, name: &'static str) -> String {
        self.key(name).example(&self.path, self.source.format)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    pub(super) fn key(&self, name: &'static str) -> &'static Key {
        let known = self.keys.iter().find(|key| key.name == name);
        known.expect("shape.rs asks for keys that it has declared")
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.into(),
        path => format!("{path}.{name}"),
    }
}
