//! Copies and sets.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::gated("copy", "htod", "cuMemcpyHtoD_v2 and its _ptds form"),
    Probe::gated(
        "copy",
        "htod_async",
        "cuMemcpyHtoDAsync_v2 and its _ptsz form",
    ),
    Probe::gated("copy", "dtoh", "cuMemcpyDtoH_v2 and its _ptds form"),
    Probe::gated(
        "copy",
        "dtoh_async",
        "cuMemcpyDtoHAsync_v2 and its _ptsz form",
    ),
    Probe::gated(
        "copy",
        "dtod",
        "cuMemcpyDtoD_v2, cuMemcpy and their _ptds forms",
    ),
    Probe::gated(
        "copy",
        "dtod_async",
        "cuMemcpyDtoDAsync_v2, cuMemcpyAsync and their _ptsz forms",
    ),
    Probe::gated("copy", "peer", "cuMemcpyPeer and its _ptds form"),
    Probe::gated("copy", "peer_async", "cuMemcpyPeerAsync and its _ptsz form"),
    Probe::gated(
        "copy",
        "2d",
        "cuMemcpy2D_v2, cuMemcpy2DUnaligned_v2 and their _ptds forms",
    ),
    Probe::gated("copy", "2d_async", "cuMemcpy2DAsync_v2 and its _ptsz form"),
    Probe::gated("copy", "3d", "cuMemcpy3D_v2 and its _ptds form"),
    Probe::gated("copy", "3d_async", "cuMemcpy3DAsync_v2 and its _ptsz form"),
    Probe::gated("copy", "3d_peer", "cuMemcpy3DPeer and its _ptds form"),
    Probe::gated(
        "copy",
        "3d_peer_async",
        "cuMemcpy3DPeerAsync and its _ptsz form",
    ),
    Probe::same(
        "copy",
        "unknown",
        "cuMemcpy2D_v2, cuMemcpy3D_v2 and cuMemcpy3DPeer of an unknown CUmemorytype",
    ),
    Probe::gated(
        "copy",
        "set",
        "cuMemsetD8_v2, D16, D32 and their _ptds forms",
    ),
    Probe::gated(
        "copy",
        "set_async",
        "cuMemsetD8Async, D16, D32 and their _ptsz forms",
    ),
    Probe::gated(
        "copy",
        "set_2d",
        "cuMemsetD2D8_v2, D16, D32 and their _ptds forms",
    ),
    Probe::gated(
        "copy",
        "set_2d_async",
        "cuMemsetD2D8Async, D16, D32 and their _ptsz forms",
    ),
    Probe::gated(
        "array",
        "htoa",
        "cuMemcpyHtoA_v2, its _ptds form, cuMemcpyHtoAAsync_v2, its _ptsz form",
    ),
    Probe::gated(
        "array",
        "atoh",
        "cuMemcpyAtoH_v2, its _ptds form, cuMemcpyAtoHAsync_v2, its _ptsz form",
    ),
    Probe::gated("array", "dtoa", "cuMemcpyDtoA_v2 and its _ptds form"),
    Probe::gated("array", "atod", "cuMemcpyAtoD_v2 and its _ptds form"),
    Probe::gated("array", "atoa", "cuMemcpyAtoA_v2 and its _ptds form"),
];
