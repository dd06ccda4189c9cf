//! What witnesses bring to light.

use rtswap_policy::units::Bytes;

use super::witness::Disagreement;

/// News of a look, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A disagreement began, changed or ended.
    Named {
        /// Whose.
        pid: u32,
        /// Which; none for an end.
        disagreement: Option<Disagreement>,
        /// What NVML shows.
        nvml: Bytes,
        /// What its agent says.
        agent: Bytes,
    },
    /// The same, of what the probes count.
    Counted {
        /// Whose.
        pid: u32,
        /// Which; none for an end.
        disagreement: Option<Disagreement>,
        /// What the probes count.
        counted: Bytes,
        /// What its agent says.
        agent: Bytes,
    },
    /// NVML shows none of the managed processes: it numbers them by another PID namespace.
    Blind,
    /// A process without an agent holds memory.
    Unmanaged {
        /// Whose.
        pid: u32,
        /// What NVML shows.
        nvml: Bytes,
    },
    /// A multi-process server runs: what single processes hold cannot be known.
    Shared,
}
