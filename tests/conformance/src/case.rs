//! A case: one thing that is believed of the driver, where that comes from, and how it is tried.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::gpu::Gpu;

/// The longest that a case may take which says nothing else, the start of its process included.
const BOUND: Duration = Duration::from_secs(8);

/// Where an expectation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// NVIDIA's documentation: the function and the page of the CUDA Driver API that say it.
    Documented(&'static str),
    /// It is not documented, but rtswap relies on it: for what.
    Relied(&'static str),
    /// Nobody says: what was seen is kept, whatever it is. Why it is asked.
    Open(&'static str),
}

/// How a case is run.
#[derive(Clone, Copy)]
pub enum Body {
    /// On a GPU with a context that other cases used before.
    Shared(fn(&Gpu) -> Result<String>),
    /// The same in a process of its own: it breaks its context, or another's.
    Alone(fn(&Gpu) -> Result<String>),
    /// In a process of its own that has not called the driver.
    Bare(fn() -> Result<String>),
}

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its room and name, as `map/twice-at-one-address`.
    pub name: &'static str,
    /// Where the expectation comes from.
    pub basis: Basis,
    /// Tells what was seen, or how that differs from what is expected.
    pub body: Body,
    /// The longest that it may take, the start of its process included.
    pub bound: Duration,
}

/// This driver or machine cannot be asked; why.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As expected, or nothing was expected.
    Agrees,
    /// Not as expected, or it crashed or hung.
    Differs,
    /// It could not be asked here.
    Skipped,
}

/// A case's row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub name: String,
    /// `documented`, `relied` or `open`.
    pub basis: String,
    /// What says or needs it.
    pub source: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What was seen, or why not.
    pub seen: String,
}

impl Case {
    /// A documented case.
    pub const fn documented(name: &'static str, source: &'static str, body: Body) -> Self {
        Self::new(name, Basis::Documented(source), body)
    }

    /// A case that rtswap relies on.
    pub const fn relied(name: &'static str, reason: &'static str, body: Body) -> Self {
        Self::new(name, Basis::Relied(reason), body)
    }

    /// An open question.
    pub const fn open(name: &'static str, reason: &'static str, body: Body) -> Self {
        Self::new(name, Basis::Open(reason), body)
    }

    const fn new(name: &'static str, basis: Basis, body: Body) -> Self {
        let bound = BOUND;
        Self {
            name,
            basis,
            body,
            bound,
        }
    }

    /// The same, with so long to take.
    #[must_use]
    pub const fn within(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Whether it needs a process of its own.
    pub fn is_alone(&self) -> bool {
        !matches!(self.body, Body::Shared(_))
    }

    /// The row of what it came to.
    pub fn row(&self, result: Result<String>) -> Row {
        let (outcome, seen) = match result {
            Ok(seen) => (Outcome::Agrees, seen),
            Err(error) if error.is::<Skipped>() => (Outcome::Skipped, error.to_string()),
            Err(error) => (Outcome::Differs, format!("{error:#}")),
        };
        self.row_of(outcome, seen)
    }

    /// The row where its process ended otherwise than by a result: an open question is answered by that.
    pub fn row_of_end(&self, end: String) -> Row {
        let outcome = match self.basis {
            Basis::Open(_) => Outcome::Agrees,
            Basis::Documented(_) | Basis::Relied(_) => Outcome::Differs,
        };
        self.row_of(outcome, end)
    }

    fn row_of(&self, outcome: Outcome, seen: String) -> Row {
        let (basis, source) = match self.basis {
            Basis::Documented(source) => ("documented", source),
            Basis::Relied(reason) => ("relied", reason),
            Basis::Open(reason) => ("open", reason),
        };
        Row {
            name: self.name.to_owned(),
            basis: basis.to_owned(),
            source: source.to_owned(),
            outcome,
            seen,
        }
    }
}

/// Calls a driver function; an error names the call unless it comes to one of the expected results, which is then told.
///
/// `expect!(cuMemUnmap(at, bytes) => INVALID_VALUE | NOT_PERMITTED)`; without results it must succeed.
#[macro_export]
macro_rules! expect {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::expect!($function($($argument),*) => SUCCESS).map(|_| ())
    };
    ($function:ident($($argument:expr),* $(,)?) => $($wanted:ident)|+) => {{
        // SAFETY: pointers among the arguments are to live locals of the case, and as large as the function asks;
        // handles and addresses are such as the driver must refuse or accept, which is what is tried.
        let status = unsafe { $crate::cuda::$function($($argument),*) };
        if [$($crate::cuda::Status::$wanted),+].contains(&status) {
            Ok(status)
        } else {
            let wanted = [$(stringify!($wanted)),+].join(" or ");
            Err(anyhow::anyhow!("{} came to {status}, not {wanted}", stringify!($function)))
        }
    }};
}

/// Calls a driver function; its result, whatever it is.
#[macro_export]
macro_rules! ask {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as for `expect!`.
        unsafe { $crate::cuda::$function($($argument),*) }
    }};
}
