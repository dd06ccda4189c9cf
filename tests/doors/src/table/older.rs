//! Functions beside the usual ones.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::gated(
        "older",
        "managed",
        "cuMemPrefetchAsync, _v2, cuStreamAttachMemAsync and their _ptsz forms",
    ),
    Probe::same(
        "older",
        "contexts",
        "cuCtxCreate_v3, _v4, cuCtxDestroy, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxRelease, cuDeviceTotalMem, cuMemGetInfo",
    ),
];
