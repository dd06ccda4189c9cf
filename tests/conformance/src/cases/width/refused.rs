//! Queries that the simulated GPU refuses, whatever they are asked.

use super::ask::{ROOM, call, check};
use super::query::Value::Out;
use crate::cuda::Status;

/// By what they ask about.
pub const REFUSED: &[(&str, &[&str])] = &[
    (
        "textures and surfaces",
        &[
            "cuDeviceGetTexture1DLinearMaxWidth",
            "cuModuleGetSurfRef",
            "cuModuleGetTexRef",
            "cuSurfObjectGetResourceDesc",
            "cuSurfRefGetArray",
            "cuTexObjectGetResourceDesc",
            "cuTexObjectGetResourceViewDesc",
            "cuTexObjectGetTextureDesc",
            "cuTexRefGetAddress",
            "cuTexRefGetAddressMode",
            "cuTexRefGetAddress_v2",
            "cuTexRefGetArray",
            "cuTexRefGetBorderColor",
            "cuTexRefGetFilterMode",
            "cuTexRefGetFlags",
            "cuTexRefGetFormat",
            "cuTexRefGetMaxAnisotropy",
            "cuTexRefGetMipmapFilterMode",
            "cuTexRefGetMipmapLevelBias",
            "cuTexRefGetMipmapLevelClamp",
            "cuTexRefGetMipmappedArray",
        ],
    ),
    (
        "other interfaces to graphics, and memory of theirs",
        &[
            "cuExternalMemoryGetMappedBuffer",
            "cuExternalMemoryGetMappedMipmappedArray",
            "cuGLGetDevices",
            "cuGLGetDevices_v2",
            "cuGraphExternalSemaphoresSignalNodeGetParams",
            "cuGraphExternalSemaphoresWaitNodeGetParams",
            "cuGraphicsResourceGetMappedEglFrame",
            "cuGraphicsResourceGetMappedMipmappedArray",
            "cuGraphicsResourceGetMappedPointer",
            "cuGraphicsResourceGetMappedPointer_v2",
            "cuGraphicsSubResourceGetMappedArray",
            "cuVDPAUGetDevice",
        ],
    ),
    (
        "core dumps",
        &["cuCoredumpGetAttribute", "cuCoredumpGetAttributeGlobal"],
    ),
    (
        "parameters of graphs' nodes",
        &[
            "cuGraphBatchMemOpNodeGetParams",
            "cuGraphEventRecordNodeGetEvent",
            "cuGraphEventWaitNodeGetEvent",
            "cuGraphHostNodeGetParams",
            "cuGraphKernelNodeGetAttribute",
            "cuGraphKernelNodeGetParams",
            "cuGraphKernelNodeGetParams_v2",
            "cuGraphNodeGetDependentNodes",
            "cuGraphNodeGetDependentNodes_v2",
            "cuGraphNodeGetEnabled",
        ],
    ),
    (
        "sparse arrays and planes",
        &[
            "cuArrayGetMemoryRequirements",
            "cuArrayGetPlane",
            "cuArrayGetSparseProperties",
            "cuMipmappedArrayGetMemoryRequirements",
            "cuMipmappedArrayGetSparseProperties",
        ],
    ),
    (
        "ranges and multicast objects",
        &[
            "cuMemGetAttribute",
            "cuMemGetAttribute_v2",
            "cuMemGetHandleForAddressRange",
            "cuMemRangeGetAttribute",
            "cuMemRangeGetAttributes",
            "cuMulticastGetGranularity",
        ],
    ),
    (
        "images that are taken apart",
        &[
            "cuFuncIsLoaded",
            "cuLibraryGetManaged",
            "cuLibraryGetUnifiedFunction",
        ],
    ),
    (
        "the rest of contexts, streams, devices and occupancy",
        &[
            "cuCtxGetDevResource",
            "cuCtxGetExecAffinity",
            "cuDeviceGetExecAffinitySupport",
            "cuDeviceGetLuid",
            "cuDeviceGetNvSciSyncAttributes",
            "cuDeviceGetProperties",
            "cuOccupancyAvailableDynamicSMemPerBlock",
            "cuOccupancyMaxActiveClusters",
            "cuOccupancyMaxPotentialBlockSizeWithFlags",
            "cuOccupancyMaxPotentialClusterSize",
            "cuStreamGetAttribute",
            "cuStreamGetAttribute_ptsz",
        ],
    ),
];

/// Those of them that this driver answers, refuses for another reason, or writes something for, with places for eight
/// results. Only a simulated driver is asked: a real one takes the places for handles.
pub(super) fn answered() -> Vec<&'static str> {
    let names = REFUSED.iter().flat_map(|(_, names)| *names).copied();
    let refuses = |name: &&str| {
        let place = [0_u64; ROOM / 8];
        let words = [(&raw const place).expose_provenance(); 8];
        let says_so = call(name, &words) == Some(Status::NOT_SUPPORTED);
        says_so && check(name, &[Out(0); 8]).is_ok()
    };
    names.filter(|name| !refuses(name)).collect()
}
