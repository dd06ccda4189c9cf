//! Return codes for zero arguments, without a device.

use crate::codes::Phase::{self, After, Before};

use super::Reason;

const BOTH: &[Phase] = &[Before, After];

/// A null pointer that the real library follows.
const CRASH: &str = "signal 11";

/// The reasons.
pub const CODES: &[Reason] = &[
    Reason {
        phases: BOTH,
        real: CRASH,
        simulated: "3",
        why: "the real library follows a null pointer; the simulated one says first that it is not initialised",
        functions: &[
            "cuCtxCreate_v4",
            "cuEGLApiInit",
            "cuMemcpy3DPeer",
            "cuMemcpy3DPeerAsync",
            "cuMemcpy3DPeerAsync_ptsz",
            "cuMemcpy3DPeer_ptds",
        ],
    },
    Reason {
        phases: &[After],
        real: CRASH,
        simulated: "3",
        why: "the real library follows a null pointer once cuInit was tried, and returns 3 as well before",
        functions: &["cuThreadExchangeStreamCaptureMode"],
    },
    Reason {
        phases: BOTH,
        real: CRASH,
        simulated: "1",
        why: "the real library follows a null pointer; the simulated one finds that it is one",
        functions: &[
            "cuGetErrorName",
            "cuGetErrorString",
            "cuGetProcAddress",
            "cuGetProcAddress_v2",
        ],
    },
    Reason {
        phases: &[After],
        real: "304",
        simulated: "100",
        why: "a second cuInit after one that failed: from branch 550 on the answer is OPERATING_SYSTEM, before it is NO_DEVICE \
              again",
        functions: &["cuInit"],
    },
    Reason {
        phases: &[After],
        real: "1",
        simulated: "3",
        why: "once cuInit was tried, though it failed, the real library looks at the arguments of these first; the simulated one \
              is not initialised until a cuInit succeeds, and a program that goes on after a failed one has no device to use",
        functions: &[
            "cuDeviceRegisterAsyncNotification",
            "cuDeviceUnregisterAsyncNotification",
            "cuLaunchCooperativeKernelMultiDevice",
            "cuLaunchHostFunc",
            "cuLaunchHostFunc_ptsz",
            "cuStreamAddCallback",
            "cuStreamAddCallback_ptsz",
        ],
    },
    Reason {
        phases: &[After],
        real: "400",
        simulated: "3",
        why: "as above: a null handle is found before the missing device",
        functions: &["cuArrayDestroy", "cuMipmappedArrayDestroy"],
    },
];
