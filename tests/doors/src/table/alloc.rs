//! Allocation and free.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::swapped("alloc", "plain", "cuMemAlloc_v2, cuMemFree_v2"),
    Probe::swapped("alloc", "pitch", "cuMemAllocPitch_v2"),
    Probe::counted(
        "alloc",
        "managed",
        "cuMemAllocManaged",
        "the driver itself moves it between host and GPU",
    ),
];
