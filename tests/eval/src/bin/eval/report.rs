//! What every figure comes down to: published numbers beside ours, tables, remarks, a picture.

use rtswap_eval::figures::published::Published;
use serde::Serialize;
use serde::ser::Serializer;

/// Of the JSON.
pub(crate) const VERSION: u32 = 1;

/// One figure or table of the paper.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    /// Its name, which is also that of its files.
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    /// The admission test, where one matters.
    pub(crate) test: Option<&'static str>,
    /// Our numbers come from a model of the paper's machine: always true.
    pub(crate) modelled: bool,
    /// Whatever is drawn comes from these.
    pub(crate) seeds: Vec<u64>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) tables: Vec<Table>,
    pub(crate) notes: Vec<String>,
    #[serde(skip)]
    pub(crate) svg: String,
}

/// One published number and ours.
#[derive(Serialize)]
pub(crate) struct Comparison {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) published: f64,
    /// Where in the paper.
    pub(crate) source: &'static str,
    pub(crate) ours: Option<f64>,
    /// Ours over the published one; none if that is zero.
    pub(crate) ratio: Option<f64>,
}

#[derive(Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) enum Cell {
    Text(String),
    Count(u64),
    /// With so many decimals.
    Number(f64, usize),
    Nothing,
}

impl Report {
    pub(crate) fn new(figure: &'static str, title: &'static str) -> Self {
        Self {
            version: VERSION,
            figure,
            title,
            test: None,
            modelled: true,
            seeds: Vec::new(),
            comparisons: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
            svg: String::new(),
        }
    }

    /// Holds `ours` against what was published; nothing if there is nothing of ours.
    pub(crate) fn compare(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        published: Published,
        ours: impl Into<Option<f64>>,
    ) {
        let ours = ours.into();
        let ratio = ours.map(|ours| ours / published.value);
        self.comparisons.push(Comparison {
            what: what.into(),
            unit,
            published: published.value,
            source: published.source,
            ours,
            ratio: ratio.filter(|ratio| ratio.is_finite()),
        });
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Table {
    /// An empty table; `columns` are its heads, `a | b | c`.
    pub(crate) fn new(title: impl Into<String>, columns: &str) -> Self {
        Self {
            title: title.into(),
            columns: columns.split(" | ").map(Into::into).collect(),
            rows: Vec::new(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(value, _) => serializer.serialize_f64(*value),
            Self::Nothing => serializer.serialize_none(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

/// With two decimals.
impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value, 2)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// A row of cells of any kinds.
macro_rules! row {
    ($($cell:expr),+ $(,)?) => { vec![$($crate::report::Cell::from($cell)),+] };
}
pub(crate) use row;
