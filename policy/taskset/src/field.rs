//! Values behind a key, read as what belongs there.

use super::MAX_NAME;
use super::error::{Fault, Wrong, unseen};
use super::number::{Decimal, Round};
use super::size;
use super::span;
use super::table::{Key, Sort, Source, Table};
use super::tree::{Entry, Node, Value};
use super::unit::Unit;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// A value behind a key of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a, 't> {
    pub(super) source: Source<'t>,
    pub(super) table: &'a Table<'a, 't>,
    pub(super) key: &'static Key,
    pub(super) node: &'a Node<'t>,
}

impl<'t> Table<'_, 't> {
    /// What is behind one of `keys`, if it is there.
    pub(super) fn get(&self, name: &'static str) -> Option<Field<'_, 't>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        Some(Field {
            source: self.source,
            table: self,
            key: self.key(name),
            node: &entry.node,
        })
    }

    /// What is behind one of `keys`, which must be there.
    pub(super) fn need(&self, name: &'static str) -> Result<Field<'_, 't>, Wrong> {
        self.get(name)
            .ok_or_else(|| self.missing(name, Fault::Missing(self.example(name))))
    }
}

impl<'a, 't> Field<'a, 't> {
    /// `fault`, at this value.
    pub(super) fn wrong(&self, fault: Fault) -> Wrong {
        Wrong::new(self.node.at, &self.path(), fault)
    }

    fn path(&self) -> String {
        self.table.path_of(self.key.name)
    }

    fn kind(&self, expected: &'static str) -> Wrong {
        self.wrong(Fault::Kind {
            found: self.node.value.kind(),
            expected,
            example: self.example(),
        })
    }

    fn zero(&self) -> Wrong {
        let Sort::Value(example) = self.key.sort else {
            unreachable!("a table is never zero");
        };
        self.wrong(Fault::Zero(example))
    }

    pub(super) fn text(&self) -> Result<&'a str, Wrong> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.kind("a text")),
        }
    }

    fn number(&self) -> Result<&'a str, Wrong> {
        match &self.node.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.kind("a number")),
        }
    }

    /// A number, as it is written and as what it means.
    pub(super) fn decimal(&self) -> Result<(&'a str, Decimal), Wrong> {
        let number = self.number()?;
        let decimal = Decimal::parse(number).map_err(|fault| self.wrong(fault))?;
        Ok((number, decimal))
    }

    /// How this key is written when it is written well.
    pub(super) fn example(&self) -> String {
        self.table.example(self.key.name)
    }

    pub(super) fn size(&self) -> Result<Bytes, Wrong> {
        let bytes = match &self.node.value {
            Value::Text(text) => size::parse(text),
            Value::Number(number) => Decimal::parse(number).and_then(|decimal| {
                decimal
                    .times(1, Round::Down)
                    .ok_or_else(|| Fault::SizeTooLarge(format!("{number}")))?;
                decimal
                    .whole()
                    .map(Bytes)
                    .ok_or_else(|| Fault::NotWhole(format!("{number}")))
            }),
            _ => return Err(self.kind("a size")),
        };
        bytes.map_err(|fault| self.wrong(fault))
    }

    /// More than nothing.
    pub(super) fn some_size(&self) -> Result<Bytes, Wrong> {
        match self.size()? {
            Bytes::ZERO => Err(self.zero()),
            size => Ok(size),
        }
    }

    pub(super) fn time(&self, unit: Unit, round: Round) -> Result<Nanos, Wrong> {
        let time = match &self.node.value {
            Value::Number(number) => span::parse(number, unit, round),
            Value::Text(text) => Err(span::wrong_text(text, unit)),
            _ => return Err(self.kind("a number")),
        };
        time.map_err(|fault| self.wrong(fault))
    }

    /// More than nothing.
    pub(super) fn some_time(&self, unit: Unit, round: Round) -> Result<Nanos, Wrong> {
        match self.time(unit, round)? {
            Nanos::ZERO => Err(self.zero()),
            time => Ok(time),
        }
    }

    /// A number of GiB/s as whole bytes per second, at least one.
    pub(super) fn rate(&self) -> Result<u64, Wrong> {
        let (number, decimal) = self.decimal()?;
        match decimal.times(1 << 30, Round::Down) {
            None => Err(self.wrong(Fault::RateTooLarge(number.into()))),
            Some(0) => Err(self.zero()),
            Some(rate) => Ok(rate),
        }
    }

    /// At least a millionth, at most one.
    pub(super) fn share(&self) -> Result<Ppm, Wrong> {
        let (number, decimal) = self.decimal()?;
        let millionths = decimal.times(1_000_000, Round::Down);
        // 1.0000001 is more than one, though its millionths are not.
        let above = decimal
            .times(1_000_000, Round::Up)
            .is_none_or(|up| up > 1_000_000);
        match millionths.and_then(|share| u32::try_from(share).ok()) {
            Some(share) if share > 0 && !above => Ok(Ppm(share)),
            _ => Err(self.wrong(Fault::NotAShare(number.into()))),
        }
    }

    /// As [`name`] reads it.
    pub(super) fn name(&self) -> Result<String, Wrong> {
        name(self.text()?).map_err(|fault| self.wrong(fault))
    }

    /// A table that may have any keys.
    pub(super) fn entries(&self) -> Result<&'a [Entry<'t>], Wrong> {
        match &self.node.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.kind("a table")),
        }
    }

    /// A table that may have `keys`.
    pub(super) fn table(&self, keys: &'static [Key]) -> Result<Table<'a, 't>, Wrong> {
        match &self.node.value {
            Value::Table(_) => Table::new(self.source, self.node, self.path(), keys),
            _ => Err(self.kind("a table")),
        }
    }

    /// An array of what should be tables.
    pub(super) fn tables(&self) -> Result<&'a [Node<'t>], Wrong> {
        match &self.node.value {
            Value::Array(items) => Ok(items),
            _ => Err(self.kind("an array of tables")),
        }
    }
}

/// A name, not empty, at most [`MAX_NAME`] characters, all visible.
pub(super) fn name(text: &str) -> Result<String, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::EmptyName);
    }
    let length = text.chars().count();
    if length > MAX_NAME {
        return Err(Fault::LongName { length });
    }
    if text.chars().any(unseen) {
        return Err(Fault::ControlCharacter(text.into()));
    }
    Ok(text.into())
}
