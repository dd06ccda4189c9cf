//! Functions of the driver that are deliberately not hooked.

/// Reasons, and the functions that each holds for.
pub(crate) const EXCLUDED: &[(&str, &[&str])] = &[];
