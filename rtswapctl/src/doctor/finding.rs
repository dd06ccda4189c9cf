//! What a check found.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// rtswap works, with less than it could have.
    Warning,
    /// Programs are not shared, not swapped or not started.
    Fault,
}

impl Level {
    /// As it is printed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// A check and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The check's name, of lower-case words joined by hyphens.
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// The command, or what else there is to do; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

impl Finding {
    /// All is well.
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            found: found.into(),
            mend: None,
        }
    }

    /// Something could be better.
    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            mend: Some(mend.into()),
            ..Self::ok(check, found)
        }
    }

    /// Something does not work.
    pub(super) fn fault(
        check: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Fault,
            ..Self::warning(check, found, mend)
        }
    }
}
