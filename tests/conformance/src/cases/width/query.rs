//! A query: a function of the driver, and what it is asked with.

use std::ffi::CStr;
use std::ops::Range;

use super::objects::{Object, Objects};

/// An argument of a query.
#[derive(Clone, Copy)]
pub(super) enum Arg {
    /// A number, or null.
    Is(usize),
    /// A name.
    Text(&'static CStr),
    /// Something on the GPU, or a structure that describes it.
    Of(Object),
    /// Where a result of so many bytes goes.
    Gives(usize),
    /// Where a structure of so many bytes goes; only these bytes are fields.
    Fields(usize, &'static [Range<usize>]),
    /// Where 64 bits go that say before how many results there is room for.
    Room(usize),
}

/// An argument as it is passed.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// A number, a handle or a pointer.
    Word(usize),
    /// As [`Arg::Gives`].
    Out(usize),
    /// As [`Arg::Fields`].
    Struct(usize, &'static [Range<usize>]),
    /// As [`Arg::Room`].
    Number(usize),
}

impl Value {
    /// Bytes that may be written.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Word(_) => 0,
            Self::Out(width) | Self::Struct(width, _) => width,
            Self::Number(_) => 8,
        }
    }

    /// Bytes that must be written.
    pub(super) fn parts(self) -> impl Iterator<Item = Range<usize>> {
        let whole = match self {
            Self::Struct(..) => None,
            _ => Some(0..self.width()),
        };
        let fields = match self {
            Self::Struct(_, fields) => fields,
            _ => &[],
        };
        whole.into_iter().chain(fields.iter().cloned())
    }
}

/// A function and its arguments.
#[derive(Clone, Copy)]
pub struct Query {
    /// Its name as it is exported.
    pub name: &'static str,
    pub(super) args: &'static [Arg],
    /// Whether a driver that has the function and what it is asked of may refuse.
    pub(super) may_refuse: bool,
}

impl Query {
    /// One that is answered.
    pub(super) const fn new(name: &'static str, args: &'static [Arg]) -> Self {
        Self {
            name,
            args,
            may_refuse: false,
        }
    }

    /// One that is answered by some drivers, or on some GPUs.
    pub(super) const fn maybe(name: &'static str, args: &'static [Arg]) -> Self {
        Self {
            name,
            args,
            may_refuse: true,
        }
    }

    /// Its arguments; none where this driver has nothing to ask about.
    pub(super) fn values(&self, objects: &Objects) -> Option<Vec<Value>> {
        let value = |arg: &Arg| {
            Some(match *arg {
                Arg::Is(number) => Value::Word(number),
                Arg::Text(text) => Value::Word(text.as_ptr().expose_provenance()),
                Arg::Of(object) => Value::Word(objects.get(object)?),
                Arg::Gives(width) => Value::Out(width),
                Arg::Fields(width, fields) => Value::Struct(width, fields),
                Arg::Room(count) => Value::Number(count),
            })
        };
        self.args.iter().map(value).collect()
    }
}
