//! Large JSON files: lists of very many rows, each an object of few keys. A tree of such a text would take many times
//! its memory, so that each row is read by itself. `walk` cuts a value into its parts without copying them, `part` has a
//! value with its path and an object with its keys, `value` reads numbers, words and names. What is wrong is noted in the
//! [`Reader`], which goes on with the next value: several faults are told at once.

mod part;
mod value;
mod walk;

pub(crate) use part::{Keys, Object, Part};
pub(crate) use value::{ANY, Range, shown};

use crate::error::{Fault, TaskSetError, Wrong};
use crate::from_json;
use part::Path;

/// The most bytes of the text of a graph or a swap plan: more than 20 times the largest model that was traced.
pub const MAX_TEXT: usize = 64 << 20;

/// The most rows of a list, as of the tensors and operators of a [`rtswap_planner::graph::Graph`].
pub(crate) const MAX_ROWS: usize = 1 << 20;

/// The most faults of a text that are told.
const MAX_FAULTS: usize = 8;

/// The version that all these files have.
const VERSION: &str = "1";

/// A text that is being read, and what is wrong with it so far.
#[derive(Debug)]
pub(crate) struct Reader<'t> {
    text: &'t str,
    wrong: Vec<Wrong>,
}

impl<'t> Reader<'t> {
    /// Opens a text that is one object with these keys, one of which is `version`.
    pub(crate) fn open<const N: usize>(
        text: &'t str,
        keys: &'static Keys<N>,
    ) -> Result<(Self, Object<'static, 't, N>), Vec<TaskSetError>> {
        let reader = || Self {
            text,
            wrong: Vec::new(),
        };
        let mut root = reader();
        if text.len() > MAX_TEXT {
            let bytes = text.len();
            root.wrong = vec![Wrong::new(0, "", Fault::TextTooLong { bytes })];
            return Err(root.errors());
        }
        let raw = from_json::raw(text).map_err(|wrong| vec![wrong.in_text(text)])?;
        let part = Part {
            raw,
            path: Path::Root,
            example: "{ \"version\": 1, … }",
        };
        let Some(object) = root.object(part, keys) else {
            return Err(root.errors());
        };
        // Another version may have other keys, so that it goes before them.
        let mut version = reader();
        match version.version(&object) {
            Some(()) => Ok((root, object)),
            None => Err(version.errors()),
        }
    }

    fn version<const N: usize>(&mut self, root: &Object<'_, 't, N>) -> Option<()> {
        let part = self.need(root, "version")?;
        let found = self.number(&part)?;
        if found == VERSION {
            return Some(());
        }
        let fault = Fault::Version {
            found: shown(found),
            instead: format!("\"version\": {VERSION}"),
        };
        self.note(&part, fault);
        None
    }

    /// What was read, unless something was wrong. Where nothing was read, a fault must have been noted.
    pub(crate) fn finish<T>(self, read: Option<T>) -> Result<T, Vec<TaskSetError>> {
        match read {
            Some(read) if self.is_sound() => Ok(read),
            _ => Err(self.errors()),
        }
    }

    /// Whether nothing was wrong so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Notes `fault` at `part`.
    pub(crate) fn note(&mut self, part: &Part<'_, 't>, fault: Fault) {
        self.note_at(part.raw.get(), part.path, fault);
    }

    /// The errors of a text of which only `fault`, at `part`, is worth telling.
    pub(crate) fn only(mut self, part: &Part<'_, 't>, fault: Fault) -> Vec<TaskSetError> {
        self.wrong.clear();
        self.note(part, fault);
        self.errors()
    }

    /// Notes `fault` where `piece` of the text begins.
    fn note_at(&mut self, piece: &str, path: Path<'_>, fault: Fault) {
        if !self.is_full() {
            let at = from_json::place(self.text, piece);
            self.wrong.push(Wrong::new(at, &path.to_string(), fault));
        }
    }

    /// Whether no further fault is told.
    fn is_full(&self) -> bool {
        self.wrong.len() >= MAX_FAULTS
    }

    /// In the order of the text.
    fn errors(self) -> Vec<TaskSetError> {
        Wrong::all_in_text(self.wrong, self.text)
    }
}
