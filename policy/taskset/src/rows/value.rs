//! Numbers, words and names.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde_json::value::RawValue;

use super::{Part, Reader};
use crate::error::Fault;
use crate::field;
use crate::number::Decimal;

/// The most bytes of a stranger's text that a message repeats.
pub(super) const SHOWN: usize = 64;

/// A sort of number, with its article, and its range.
pub(crate) type Range = (&'static str, RangeInclusive<u64>);

/// Any number of 64 bits.
pub(crate) const ANY: Range = ("a whole number", 0..=u64::MAX);

impl<'t> Reader<'t> {
    /// A number as it is written.
    pub(crate) fn number(&mut self, part: &Part<'_, 't>) -> Option<&'t str> {
        let number = part.raw.get();
        let is_number = number.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if !is_number {
            self.wrong_kind(part, "a number");
        }
        is_number.then_some(number)
    }

    /// A whole number; `2e3` and `16.0` are some.
    pub(crate) fn whole(&mut self, part: &Part<'_, 't>, range: &Range) -> Option<u64> {
        let (what, range) = range;
        let text = self.number(part)?;
        let number = text.parse().ok();
        let number = number.or_else(|| Decimal::parse(text).ok().and_then(Decimal::whole));
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let fault = Fault::OutOfRange {
                number: shown(text),
                what,
                least: *range.start(),
                most: *range.end(),
            };
            self.note(part, fault);
        }
        number
    }

    /// `true` or `false`.
    pub(crate) fn truth(&mut self, part: &Part<'_, 't>) -> Option<bool> {
        let truth = part.raw.get().parse().ok();
        if truth.is_none() {
            self.wrong_kind(part, "a boolean");
        }
        truth
    }

    /// A list of as many whole numbers as there are `ranges`.
    pub(crate) fn wholes<const N: usize>(
        &mut self,
        part: &Part<'_, 't>,
        ranges: &[Range; N],
    ) -> Option<[u64; N]> {
        let mut numbers = [None; N];
        let found = self.each(part, usize::MAX, "0", |reader, at, item| {
            if let (Some(number), Some(range)) = (numbers.get_mut(at), ranges.get(at)) {
                *number = reader.whole(&item, range);
            }
        })?;
        if found != N {
            let fault = Fault::Length {
                found,
                expected: N,
                example: part.example,
            };
            self.note(part, fault);
        }
        let all = numbers.iter().all(Option::is_some);
        all.then(|| numbers.map(Option::unwrap_or_default))
    }

    /// Reads a JSON string.
    pub(crate) fn text(&mut self, part: &Part<'_, 't>) -> Option<Cow<'t, str>> {
        if part.raw.get().starts_with('"') {
            return self.string(part.raw, part.path);
        }
        self.wrong_kind(part, "a text");
        None
    }

    /// A name, as [`field::name`] reads it.
    pub(crate) fn name(&mut self, part: &Part<'_, 't>) -> Option<String> {
        let text = self.text(part)?;
        let name = field::name(&text).map_err(|fault| self.note(part, fault));
        name.ok()
    }

    /// A word that means one of `known`.
    pub(crate) fn word<T: Copy>(
        &mut self,
        part: &Part<'_, 't>,
        known: &[(&'static str, T)],
    ) -> Option<T> {
        let word = self.text(part)?;
        let found = known.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
            let word = shown(&word);
            let known = names.join(" or ");
            self.note(part, Fault::Word { word, known });
        }
        found.map(|(_, meaning)| *meaning)
    }
}

/// What a value is, with its article.
pub(super) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "a table",
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A stranger's text, its beginning where it is long.
pub(crate) fn shown(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(SHOWN)])
}
