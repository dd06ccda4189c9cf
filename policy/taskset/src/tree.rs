//! What a text says, of whichever format, each part with the byte at which it starts.

use std::borrow::Cow;

use toml::value::Datetime;

/// A value and the byte of the text at which it starts.
#[derive(Debug)]
pub(super) struct Node<'t> {
    pub(super) at: usize,
    pub(super) value: Value<'t>,
}

#[derive(Debug)]
pub(super) enum Value<'t> {
    /// In the order of the text.
    Table(Vec<Entry<'t>>),
    Array(Vec<Node<'t>>),
    Text(Cow<'t, str>),
    /// As it is written, but for `_` between digits.
    Number(Cow<'t, str>),
    Date(Datetime),
    /// What has no place in a file of ours, in words with their article.
    Other(&'static str),
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry<'t> {
    pub(super) key: Cow<'t, str>,
    pub(super) at: usize,
    pub(super) node: Node<'t>,
}

/// The deepest level of a file; the readers do not descend below it.
pub(super) const DEPTH: usize = 6;

impl Value<'_> {
    /// In words with their article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::Array(_) => "an array",
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Date(_) => "a date",
            Self::Other(what) => what,
        }
    }
}
