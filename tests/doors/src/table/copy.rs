//! Copies and sets.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[Probe::gated(
    "copy",
    "htod",
    "cuMemcpyHtoD_v2 and its _ptds form",
)];
