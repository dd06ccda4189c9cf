//! The lines to and from highs.py, each one JSON object.

use std::time::Duration;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::program::Program;

/// Within this HiGHS takes a constraint for met and a number for whole.
const TOLERANCE: f64 = 1e-9;

/// HiGHS's verdict on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// The values are optimal.
    Optimal,
    /// No values satisfy all rows and bounds.
    Infeasible,
    /// HiGHS ran out of time or gave up.
    Unknown,
}

/// HiGHS's answer to a program.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Solved {
    /// The verdict.
    pub(crate) status: Status,
    /// The value of each column if `status` is `Optimal`, else none. Whole numbers are exact;
    /// serde_json reads others to one unit in the last place, far below `TOLERANCE`.
    pub(crate) values: Vec<f64>,
    /// Wall time of building HiGHS's model and of solving it, as highs.py measures it.
    #[serde(rename = "seconds", deserialize_with = "seconds")]
    pub(crate) time: Duration,
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
}

/// A line of highs.py.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Reply {
    /// HiGHS is there; the first line.
    Ready {
        /// HiGHS's version.
        version: String,
    },
    /// An answer.
    Solved(Solved),
    /// What highs.py lacks or HiGHS refuses, and what to do; the last line.
    Failed(String),
}

/// A line for highs.py.
#[derive(Serialize)]
pub(crate) struct Question<'a> {
    options: Options,
    #[serde(flatten)]
    program: &'a Program,
}

impl<'a> Question<'a> {
    /// Asks for the solution of `program`.
    pub(crate) fn new(program: &'a Program) -> Self {
        Self {
            options: OPTIONS,
            program,
        }
    }
}

/// HiGHS's options, by its own names.
#[derive(Serialize)]
struct Options {
    /// In seconds.
    time_limit: f64,
    threads: u32,
    mip_rel_gap: f64,
    mip_abs_gap: f64,
    mip_feasibility_tolerance: f64,
    primal_feasibility_tolerance: f64,
}

const OPTIONS: Options = Options {
    time_limit: 20.0,
    threads: 1,
    mip_rel_gap: 0.0,
    mip_abs_gap: TOLERANCE,
    mip_feasibility_tolerance: TOLERANCE,
    primal_feasibility_tolerance: TOLERANCE,
};
