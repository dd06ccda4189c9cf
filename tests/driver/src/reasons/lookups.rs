//! Answers of cuGetProcAddress.

use super::LookupReason;

/// The reasons.
pub const LOOKUPS: &[LookupReason] = &[];
