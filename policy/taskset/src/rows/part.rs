//! A value with its path, and an object with its keys.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use serde_json::value::RawValue;

use super::value::{SHOWN, kind, shown};
use super::{Reader, walk};
use crate::error::{Fault, line};
use crate::from_json::place;
use crate::nearest::nearest;

/// The keys that an object may have, each with the text of a value that would do.
pub(crate) type Keys<const N: usize> = [(&'static str, &'static str); N];

/// The way from the whole text to a value, as a list in the functions that go it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

/// A value and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'p, 't> {
    pub(super) raw: &'t RawValue,
    pub(super) path: Path<'p>,
    /// A value that would do.
    pub(super) example: &'static str,
}

/// An object with no keys but those that it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'p, 't, const N: usize> {
    part: Part<'p, 't>,
    keys: &'static Keys<N>,
    values: [Option<&'t RawValue>; N],
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, name) => f.write_str(&shown(name)),
            Self::Key(of, name) => write!(f, "{of}.{}", shown(name)),
            Self::Item(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

impl<'t> Part<'_, 't> {
    /// The item of a list with this number.
    pub(crate) fn item(&self, index: usize) -> Option<Part<'_, 't>> {
        let mut found = None;
        let mut left = index;
        walk::items(self.raw, |item| {
            if left == 0 {
                found = Some(item);
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        found.map(|raw| self.item_of(raw, index, ""))
    }

    fn item_of(&self, raw: &'t RawValue, index: usize, example: &'static str) -> Part<'_, 't> {
        Part {
            raw,
            path: Path::Item(&self.path, index),
            example,
        }
    }
}

impl<'t, const N: usize> Object<'_, 't, N> {
    /// The value of a key, if it is there.
    pub(crate) fn get(&self, name: &'static str) -> Option<Part<'_, 't>> {
        let at = self.keys.iter().position(|(key, _)| *key == name)?;
        let part = |raw| Part {
            raw,
            path: Path::Key(&self.part.path, name),
            example: self.keys[at].1,
        };
        self.values[at].map(part)
    }
}

impl<'t> Reader<'t> {
    /// The keys and values of an object. Notes the keys that are not known or come twice.
    pub(crate) fn object<'p, const N: usize>(
        &mut self,
        part: Part<'p, 't>,
        keys: &'static Keys<N>,
    ) -> Option<Object<'p, 't, N>> {
        if !part.raw.get().starts_with('{') {
            self.wrong_kind(&part, "a table");
            return None;
        }
        let mut values: [Option<&'t RawValue>; N] = [None; N];
        walk::members(part.raw, |key, value| {
            let Some(name) = self.string(key, part.path) else {
                return;
            };
            match keys.iter().position(|(known, _)| *known == name) {
                Some(at) if values[at].is_none() => values[at] = Some(value),
                found if !self.is_full() => {
                    let first = found.and_then(|at| values[at]);
                    let fault = self.wrong_key(&name, first, keys);
                    self.note_at(key.get(), Path::Key(&part.path, &name), fault);
                }
                _ => {}
            }
        });
        Some(Object { part, keys, values })
    }

    /// `first` is the value behind the same key before.
    fn wrong_key<const N: usize>(
        &self,
        name: &str,
        first: Option<&RawValue>,
        keys: &Keys<N>,
    ) -> Fault {
        if let Some(first) = first {
            return Fault::Twice(line(self.text, place(self.text, first.get())));
        }
        let known = keys.map(|(known, _)| known);
        Fault::UnknownKey {
            // No key is so long, and a comparison takes as long as the text has characters.
            meant: Some(name)
                .filter(|name| name.len() <= SHOWN)
                .and_then(|name| nearest(name, &known)),
            known: known.join(", "),
        }
    }

    /// The value of a key that must be there.
    pub(crate) fn need<'o, const N: usize>(
        &mut self,
        object: &'o Object<'_, 't, N>,
        name: &'static str,
    ) -> Option<Part<'o, 't>> {
        let part = object.get(name);
        if part.is_none() {
            let example = object.keys.iter().find(|(key, _)| *key == name);
            let example = example.map_or("…", |(_, example)| example);
            let path = Path::Key(&object.part.path, name);
            let fault = Fault::Missing(format!("\"{name}\": {example}"));
            self.note_at(object.part.raw.get(), path, fault);
        }
        part
    }

    /// Gives the items of a list and their numbers to `read`, at most `most`, and returns how many there were. `example`
    /// is an item that would do.
    pub(crate) fn each(
        &mut self,
        list: &Part<'_, 't>,
        most: usize,
        example: &'static str,
        mut read: impl FnMut(&mut Self, usize, Part<'_, 't>),
    ) -> Option<usize> {
        if !list.raw.get().starts_with('[') {
            self.wrong_kind(list, "an array");
            return None;
        }
        let mut count = 0;
        walk::items(list.raw, |raw| {
            let item = list.item_of(raw, count, example);
            if count == most {
                self.note(&item, Fault::ListTooLong { most });
                return ControlFlow::Break(());
            }
            read(self, count, item);
            count += 1;
            if self.is_full() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        Some(count)
    }

    /// A text of JSON without its quotes, and with its escapes resolved.
    pub(super) fn string(&mut self, raw: &'t RawValue, path: Path<'_>) -> Option<Cow<'t, str>> {
        let json = raw.get();
        if !json.contains('\\') {
            return Some(Cow::Borrowed(&json[1..json.len() - 1]));
        }
        match serde_json::from_str(json) {
            Ok(text) => Some(Cow::Owned(text)),
            // An escape that is well formed and means nothing, as half a surrogate pair.
            Err(error) => {
                self.note_at(json, path, crate::from_json::syntax(&error));
                None
            }
        }
    }

    /// Notes that `part` is no `expected`.
    pub(super) fn wrong_kind(&mut self, part: &Part<'_, 't>, expected: &'static str) {
        let fault = Fault::Kind {
            found: kind(part.raw),
            expected,
            example: part.example.to_owned(),
        };
        self.note(part, fault);
    }
}
