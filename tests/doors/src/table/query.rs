//! Questions about memory.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::answers(
        "query",
        "memory_info",
        "cuMemGetInfo_v2, cuDeviceTotalMem_v2",
    ),
    Probe::answers("query", "address_range", "cuMemGetAddressRange_v2"),
    Probe::answers("query", "attribute", "cuPointerGetAttribute"),
    Probe::answers("query", "attributes", "cuPointerGetAttributes"),
    Probe::same(
        "query",
        "strangers",
        "the same questions about what is no GPU memory",
    ),
];
