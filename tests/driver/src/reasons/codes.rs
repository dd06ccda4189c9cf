//! Return codes for zero arguments, without a device.

use super::CodeReason;

/// The reasons.
pub const CODES: &[CodeReason] = &[];
