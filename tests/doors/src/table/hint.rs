//! What kernels do not write is copied out once.

use super::Probe;
use crate::check::{Outcome, hinted};

const fn hint(argument: &'static str, doors: &'static str) -> Probe {
    Probe::own("hint", argument, doors, hinted, Outcome::Caught)
}

pub(super) const PROBES: &[Probe] = &[
    hint(
        "copies",
        "rtswap_hint_read_only, then copies of single bytes there",
    ),
    hint("sets", "rtswap_hint_read_only, then sets there"),
    hint(
        "untold",
        "rtswap_hint_read_only, then cuStreamWriteValue32_v2 and graphs that were updated",
    ),
    hint(
        "graphs",
        "rtswap_hint_read_only, then graphs of kernels, copies, sets and graphs within",
    ),
    hint(
        "ended",
        "rtswap_hint_read_only, then cuMemFree_v2 and kernels on what is there next",
    ),
    hint(
        "ordered",
        "rtswap_hint_read_only, then cuMemFreeAsync, cuMemAllocAsync and kernels",
    ),
    hint(
        "taken_back",
        "rtswap_hint_read_only, then rtswap_hint_writable and kernels there",
    ),
];
