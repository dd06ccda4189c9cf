//! What is written at the places that are given, without a device.

use crate::codes::Phase::{self, After, Before};

use super::Reason;

const BOTH: &[Phase] = &[Before, After];

const NOTHING: &str = "nothing";

const STANDS_FOR_NOTHING: &str = "OpenGL, EGL and textures by reference are not simulated: what says CUDA_ERROR_NOT_SUPPORTED writes nothing";

/// The reasons.
pub const STORES: &[Reason] = &[
    Reason {
        phases: BOTH,
        real: "0:0-8 1:0-8",
        simulated: NOTHING,
        why: STANDS_FOR_NOTHING,
        functions: &[
            "cuGLMapBufferObjectAsync_v2",
            "cuGLMapBufferObjectAsync_v2_ptsz",
            "cuGLMapBufferObject_v2",
            "cuGLMapBufferObject_v2_ptds",
            "cuGraphicsResourceGetMappedPointer_v2",
        ],
    },
    Reason {
        phases: BOTH,
        real: "0:0-4 1:0-4",
        simulated: NOTHING,
        why: STANDS_FOR_NOTHING,
        functions: &[
            "cuGLMapBufferObject",
            "cuGLMapBufferObjectAsync",
            "cuGraphicsResourceGetMappedPointer",
        ],
    },
    Reason {
        phases: BOTH,
        real: "0:0-8",
        simulated: NOTHING,
        why: STANDS_FOR_NOTHING,
        functions: &["cuTexRefGetAddress_v2", "cuTexRefSetAddress_v2"],
    },
    Reason {
        phases: BOTH,
        real: "0:0-4",
        simulated: NOTHING,
        why: STANDS_FOR_NOTHING,
        functions: &["cuTexRefGetAddress", "cuTexRefSetAddress"],
    },
    Reason {
        phases: BOTH,
        real: "1:120-128",
        simulated: NOTHING,
        why: STANDS_FOR_NOTHING,
        functions: &["cuEGLApiInit"],
    },
    Reason {
        phases: &[After],
        real: "0:0-4",
        simulated: NOTHING,
        why: "once cuInit was tried, though it failed, the real library exchanges a thread's mode; the simulated one is not \
              initialised until a cuInit succeeds",
        functions: &["cuThreadExchangeStreamCaptureMode"],
    },
];
