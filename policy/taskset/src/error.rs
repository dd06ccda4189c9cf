//! Where a file is wrong, what is wrong with it, and what to write instead.

use std::fmt::{self, Write};

use rtswap_planner::graph::GraphError;
use rtswap_policy::units::{Bytes, Nanos};

use super::calibration::MAX_NOTES;
use super::rows::MAX_TEXT;
use super::unit::Unit;
use super::{GRANULARITY, MAX_NAME, MAX_PERIOD, MAX_TASKS};

/// A text that is no task set, no calibration, no profile, no graph, or no swap plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {}{fault}", Prefix(key))]
pub struct TaskSetError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The path of the key, as `task[0].wcet_ms`; empty for the whole text.
    pub key: String,
    /// What is wrong there, and what to write instead.
    pub fault: Fault,
}

struct Prefix<'a>(&'a str);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            key => write!(f, "{}: ", Plain(key)),
        }
    }
}

/// What a stranger wrote, on one line and with nothing that a terminal would obey.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if unseen(c) {
                write!(f, "{}", c.escape_default())
            } else {
                f.write_char(c)
            }
        })
    }
}

/// Whether a terminal obeys `c` or shows nothing for it: control characters, and those that have
/// no width or turn the direction of what follows.
pub(super) fn unseen(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}')
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The text is no TOML, or no JSON; what its parser says.
    #[error("not {format}: {}", Plain(said))]
    Syntax {
        /// TOML or JSON.
        format: &'static str,
        /// By the parser.
        said: String,
    },
    /// A key that means nothing here.
    #[error("unknown key; {}", suggestion(*meant, known))]
    UnknownKey {
        /// The known one that it resembles.
        meant: Option<&'static str>,
        /// Those that are known here, and a comma between them.
        known: String,
    },
    /// A key that must be there.
    #[error("missing; write, for example, {0}")]
    Missing(String),
    /// A key of a task that is measured, in one that is planned from a graph.
    #[error(
        "the task is planned from its graph, which says that; leave it out, or leave graph and context out"
    )]
    BesideGraph,
    /// A key of a task that is planned from a graph, in one that is measured.
    #[error(
        "without graph there is no such key: the footprint has the context in it; leave it out"
    )]
    WithoutGraph,
    /// A limit on the host memory of a set in which no job copies.
    #[error("no task has a graph, and swap volumes alone are not limited; leave it out")]
    WithoutGraphs,
    /// One direction of the swap cost without the other.
    #[error(
        "missing beside the other direction; measure and write both, or leave both out for the fit \
         to the paper's GPU"
    )]
    OneDirection,
    /// A key that is there more than once.
    #[error("written twice, first on line {0}; leave one out")]
    Twice(usize),
    /// A value of another kind.
    #[error("{found} where {expected} belongs; write, for example, {example}")]
    Kind {
        /// What is there.
        found: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// One that would do.
        example: String,
    },
    /// Another version of the format, or none.
    #[error("version {found} is not known; write {instead}")]
    Version {
        /// What is there.
        found: String,
        /// What belongs there.
        instead: String,
    },
    /// `nan`, `inf`, or no digits.
    #[error("{0} is not a finite number; write one in digits")]
    NotANumber(String),
    /// Below zero, or a zero with a minus.
    #[error("{0} has a minus sign; write a number without one")]
    Negative(String),
    /// A number that cannot be kept exactly.
    #[error("more digits than can be kept; write at most {0}")]
    TooManyDigits(u32),
    /// Zero, or so little that nothing is left of it, where something must be.
    #[error("must be more than 0; write, for example, {0}")]
    Zero(&'static str),
    /// A time in quotes.
    #[error(
        "{text:?} is a text, where a number of {unit} belongs; write {instead}, the key has the unit"
    )]
    TimeAsText {
        /// What is there.
        text: String,
        /// The unit of the key.
        unit: &'static str,
        /// The same as a number.
        instead: String,
    },
    /// A size, for a time.
    #[error("{text:?} is a size, where a time belongs; write a number of {unit}")]
    SizeForTime {
        /// What is there.
        text: String,
        /// The unit of the key.
        unit: &'static str,
    },
    /// A text that is nothing like a time.
    #[error("{text:?} is not a time; write a number of {unit}")]
    NotATime {
        /// What is there.
        text: String,
        /// The unit of the key.
        unit: &'static str,
    },
    /// More nanoseconds than 64 bits count.
    #[error("{number} {unit} is longer than 584 years, which is the longest; write fewer {unit}")]
    TimeTooLong {
        /// What is there.
        number: String,
        /// The unit of the key.
        unit: &'static str,
    },
    /// A text that is nothing like a size.
    #[error("{0:?} is not a size; write whole bytes, or a number and a unit as \"6.2GiB\"")]
    NotASize(String),
    /// A number in quotes.
    #[error(
        "{text:?} has no unit; write \"{number}GiB\", \"{number}MiB\", or for bytes \"{number}B\""
    )]
    SizeWithoutUnit {
        /// What is there.
        text: String,
        /// The number in it.
        number: String,
    },
    /// A unit that is none.
    #[error("{text:?} has no unit that is known; {}", unit_suggestion(instead.as_deref()))]
    SizeUnit {
        /// What is there.
        text: String,
        /// What was perhaps meant.
        instead: Option<String>,
    },
    /// A time, for a size.
    #[error("{0:?} is a time, where a size belongs; write whole bytes, or a unit as in \"6.2GiB\"")]
    TimeForSize(String),
    /// A fraction of a byte.
    #[error("{0} is not a whole number of bytes; write one, or a number and a unit as \"6.2GiB\"")]
    NotWhole(String),
    /// More bytes than 64 bits count.
    #[error("{0} is 16 EiB or more; write less")]
    SizeTooLarge(String),
    /// A bandwidth beyond counting.
    #[error("{0} GiB/s is more than can be counted; write less")]
    RateTooLarge(String),
    /// A period longer than any clock should run.
    #[error(
        "{number} ms is longer than 1000 days; write at most {}",
        ms(MAX_PERIOD)
    )]
    PeriodTooLong {
        /// What is there.
        number: String,
    },
    /// JSON where TOML was expected.
    #[error("this looks like JSON; give the file a name that ends in .json")]
    LooksLikeJson,
    /// Not a share.
    #[error("{0} is no share: 0 < duplex ≤ 1; write, for example, 0.8")]
    NotAShare(String),
    /// D > T.
    #[error(
        "the deadline, {} ms, is after the end of the period, {} ms; write at most {}, or a longer \
         period_ms",
        ms(*deadline),
        ms(*period),
        ms(*period)
    )]
    DeadlineBeyondPeriod {
        /// The declared deadline D.
        deadline: Nanos,
        /// The declared period T.
        period: Nanos,
    },
    /// C > D.
    #[error(
        "the WCET, {} ms, is longer than the deadline, {} ms; write at most {}, or a longer {key}",
        ms(*wcet),
        ms(*deadline),
        ms(*deadline)
    )]
    WcetBeyondDeadline {
        /// The declared WCET C.
        wcet: Nanos,
        /// The deadline D, declared or taken from the period.
        deadline: Nanos,
        /// The key that D comes from.
        key: &'static str,
    },
    /// mˢ > m.
    #[error(
        "{} bytes ({swappable}) can be swapped of a footprint of {} bytes ({footprint}); write at \
         most {}",
        swappable.0, footprint.0, footprint.0
    )]
    SwappableBeyondFootprint {
        /// The swappable part of the footprint, mˢ.
        swappable: Bytes,
        /// The whole footprint m.
        footprint: Bytes,
    },
    /// A chunk size that CUDA cannot map.
    #[error(
        "{} bytes ({chunk}) is no multiple of {}MiB, the least that CUDA maps; write \"{}MiB\"",
        chunk.0, GRANULARITY.0 >> 20, near_multiple(*chunk)
    )]
    Chunk {
        /// The chunk size δ as written.
        chunk: Bytes,
    },
    /// mᴰ < δ.
    #[error("{memory} does not hold one chunk of {chunk}; write more memory, or a smaller chunk")]
    MemoryBelowChunk {
        /// The memory of the GPU, mᴰ, as written.
        memory: Bytes,
        /// δ, or the least that it can be.
        chunk: Bytes,
    },
    /// The name of a task is empty.
    #[error("the name is empty; write one, for example \"yolo-608\"")]
    EmptyName,
    /// A profile's C below what it saw.
    #[error(
        "the WCET, {} ms, is shorter than a job that was seen, {} ms; write at least {}",
        ms(*wcet),
        ms(*seen),
        ms(*seen)
    )]
    WcetBelowSeen {
        /// The C of the file.
        wcet: Nanos,
        /// The longest execution of the file.
        seen: Nanos,
    },
    /// A number of things that is none.
    #[error("{0} is not a whole number from 1 on; write one")]
    NotACount(String),
    /// A word that is none of those that belong there.
    #[error("{word:?} where {known} belongs; write one of these")]
    Word {
        /// What is there.
        word: String,
        /// What belongs there.
        known: String,
    },
    /// A text that is no UUID of a GPU.
    #[error(
        "{0:?} is not the UUID of a GPU or MIG instance; write it as `nvidia-smi -L` does, such as \
         GPU-01234567-89ab-cdef-0123-456789abcdef"
    )]
    NotAGpu(String),
    /// A value that is no moment after 1970.
    #[error("not a time with date and offset since 1970; write, for example, {0}")]
    NotAMoment(String),
    /// A measured cost beyond [`crate::calibration::MAX_COST`].
    #[error("longer than 10 s, which no swap is held up for; measure again")]
    CostTooLong,
    /// A measured rate that no link has.
    #[error("faster than any link; write less than 1000000, or measure again")]
    TooFast,
    /// A note that cannot be shown.
    #[error(
        "a note is a text of at most {MAX_NAME} visible characters, or a number; leave this one out"
    )]
    NotANote,
    /// More than [`crate::calibration::MAX_NOTES`] notes.
    #[error("{0} notes, and at most {most} are kept; leave out {rest}", most = MAX_NOTES, rest = .0 - MAX_NOTES)]
    TooManyNotes(usize),
    /// A name with characters that a terminal interprets or does not show.
    #[error("the name {0:?} has a control character or an invisible one; leave it out")]
    ControlCharacter(String),
    /// A name too long for the tables that show it.
    #[error("the name has {length} characters; write at most {MAX_NAME}")]
    LongName {
        /// How many characters it has.
        length: usize,
    },
    /// A name that another task has.
    #[error("{name:?} is the name of the task on line {first}, too; write another")]
    DuplicateName {
        /// The name that two tasks share.
        name: String,
        /// The line of its first use, counted from 1.
        first: usize,
    },
    /// The set has no task, so there is nothing to plan.
    #[error("no task; write at least one {0}")]
    NoTask(String),
    /// The set has more than [`MAX_TASKS`] tasks.
    #[error("{tasks} tasks, and at most {MAX_TASKS} fit in a set; leave out {}", tasks - MAX_TASKS)]
    TooManyTasks {
        /// How many there are.
        tasks: usize,
    },
    /// A graph or a swap plan of more than [`MAX_TEXT`] bytes.
    #[error("{bytes} bytes of text, and at most {MAX_TEXT} are read; leave out blanks and names")]
    TextTooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// A number that is not whole, or beyond the range of its key.
    #[error("{number} is not {what} from {least} to {most}; write one")]
    OutOfRange {
        /// The number as written, its beginning where it is long.
        number: String,
        /// The sort of number that belongs there, with its article.
        what: &'static str,
        /// The least number of the range.
        least: u64,
        /// The largest number of the range.
        most: u64,
    },
    /// A number or a text that something else in the files determines.
    #[error("{found} is not {what}; write {expected}")]
    Mismatch {
        /// The value as written, its beginning where it is long.
        found: String,
        /// What belongs there.
        what: &'static str,
        /// The value that belongs there.
        expected: String,
    },
    /// A list with more items than there can be.
    #[error("more than {most} in this list; leave out this one and all behind it")]
    ListTooLong {
        /// The largest number of items.
        most: usize,
    },
    /// A list of a fixed number of values that has another number.
    #[error("{found} in this list, where {expected} belong; write, for example, {example}")]
    Length {
        /// The number of items.
        found: usize,
        /// The number of items that belong there.
        expected: usize,
        /// A list that would do.
        example: &'static str,
    },
    /// A graph that cannot run.
    #[error("{}{}", .0, remedy(.0))]
    Graph(GraphError),
    /// A text that is no digest of a graph.
    #[error("{0:?} is not a digest; write 16 hex digits, for example \"0123456789abcdef\"")]
    NotADigest(String),
    /// A swap plan that was made for another graph.
    #[error(
        "the plan is for another graph, {name:?} with the digest {found:016x}, and this graph has \
         {expected:016x}; give the graph of the plan, or make a plan for this graph"
    )]
    OtherGraph {
        /// The name of the graph that the plan is for.
        name: String,
        /// The digest of that graph.
        found: u64,
        /// The digest of the graph that was given.
        expected: u64,
    },
    /// An extent that does not lie within the budget.
    #[error(
        "the extent ends beyond the budget of {budget} bytes; write a smaller offset, or fewer bytes"
    )]
    BeyondBudget {
        /// The budget in bytes.
        budget: u64,
    },
}

/// The mark of the byte order that some editors write before all else.
pub(super) const MARK: char = '\u{feff}';

/// A fault and where it is, before lines were counted.
#[derive(Debug)]
pub(super) struct Wrong {
    at: usize,
    key: String,
    fault: Fault,
}

impl Wrong {
    /// `at` is a byte of the text.
    pub(super) fn new(at: usize, key: &str, fault: Fault) -> Self {
        Self {
            at,
            key: key.into(),
            fault,
        }
    }

    pub(super) fn in_text(self, text: &str) -> TaskSetError {
        let mut place = Place::start(text);
        place.go(text, self.at);
        self.at_place(&place)
    }

    /// The errors of a text, in its order. Counts lines once for all of them.
    pub(super) fn all_in_text(mut all: Vec<Self>, text: &str) -> Vec<TaskSetError> {
        all.sort_by_key(|wrong| wrong.at);
        let mut place = Place::start(text);
        let errors = all.into_iter().map(|wrong| {
            place.go(text, wrong.at);
            wrong.at_place(&place)
        });
        errors.collect()
    }

    fn at_place(self, place: &Place) -> TaskSetError {
        TaskSetError {
            line: place.line,
            column: place.column,
            key: self.key,
            fault: self.fault,
        }
    }
}

/// A byte of a text, and its line and column.
struct Place {
    at: usize,
    line: usize,
    column: usize,
}

impl Place {
    fn start(text: &str) -> Self {
        // A mark of the byte order is before the first column.
        let content = text.strip_prefix(MARK).unwrap_or(text);
        Self {
            at: text.len() - content.len(),
            line: 1,
            column: 1,
        }
    }

    /// Goes on to the byte `at`.
    fn go(&mut self, text: &str, at: usize) {
        let at = text.floor_char_boundary(at).max(self.at);
        let between = &text[self.at..at];
        let mut column = self.column;
        let mut last = between;
        if let Some((lines, begun)) = between.rsplit_once('\n') {
            self.line += lines.matches('\n').count() + 1;
            (column, last) = (1, begun);
        }
        self.column = column + last.chars().count();
        self.at = at;
    }
}

/// The line of the byte `at`, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn suggestion(meant: Option<&'static str>, known: &str) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("known here: {known}"),
    }
}

fn unit_suggestion(instead: Option<&str>) -> String {
    match instead {
        Some(instead) => format!("did you mean {instead:?}?"),
        None => "write B, KiB, MiB, GiB or TiB".into(),
    }
}

/// What to write where a graph cannot run and its error does not say it.
fn remedy(error: &GraphError) -> &'static str {
    match error {
        GraphError::TooMany { .. } => "; leave out the rest",
        GraphError::Empty => "; write, for example, \"operators\": [{ … }]",
        GraphError::TooLarge { .. } => "; write smaller numbers",
        GraphError::NoSuchTensor { .. } => "; write the number of a tensor",
        GraphError::Twice { .. } => "; leave out one",
        GraphError::MakesGiven { .. } => "; write its number in \"updates\"",
        GraphError::MadeTwice { .. } => "; write its number in \"updates\" there",
        GraphError::NotMade { .. } => {
            "; write its number in the \"outputs\" of an operator, or another kind"
        }
        GraphError::Cycle { .. } => "; take a number out of the \"inputs\" of one of them",
        GraphError::SharedScratch { .. } => "; write the kind \"activation\"",
        _ => "",
    }
}

fn ms(span: Nanos) -> String {
    Unit::Millis.write(span)
}

/// The multiple of the granularity below `chunk`, or the least, in MiB.
fn near_multiple(chunk: Bytes) -> u64 {
    chunk.round_down(GRANULARITY).max(GRANULARITY).0 >> 20
}
