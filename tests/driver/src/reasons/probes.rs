//! Other forms of probed functions that the daemon's eBPF probes are not on.

/// Reasons, and the functions that each holds for.
pub const UNPROBED: &[(&str, &[&str])] = &[];
