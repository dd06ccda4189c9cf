//! Allocation and free.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::swapped("alloc", "plain", "cuMemAlloc_v2, cuMemFree_v2"),
    Probe::swapped(
        "alloc",
        "many",
        "forty objects of all sizes in shared chunks",
    ),
    Probe::swapped("alloc", "pitch", "cuMemAllocPitch_v2"),
    Probe::counted(
        "alloc",
        "managed",
        "cuMemAllocManaged",
        "the driver itself moves it between host and GPU",
    ),
    Probe::swapped(
        "alloc",
        "host",
        "cuMemHostAlloc, cuMemHostGetDevicePointer_v2, cuMemFreeHost",
    ),
    Probe::swapped(
        "alloc",
        "registered",
        "cuMemHostRegister_v2, cuMemHostUnregister",
    ),
    Probe::counted(
        "alloc",
        "array",
        "cuArrayCreate_v2, cuArrayDestroy",
        "an array's layout is the driver's own",
    ),
    Probe::counted(
        "alloc",
        "array3d",
        "cuArray3DCreate_v2",
        "an array's layout is the driver's own",
    ),
    Probe::counted(
        "alloc",
        "mipmapped",
        "cuMipmappedArrayCreate, cuMipmappedArrayDestroy",
        "an array's layout is the driver's own",
    ),
    Probe::swapped("free", "plain", "cuMemFree_v2 of what is out"),
    Probe::swapped("free", "async", "cuMemFreeAsync of what cuMemAlloc_v2 gave"),
    Probe::same("free", "null", "cuMemFree_v2 of NULL"),
    Probe::same("free", "twice", "cuMemFree_v2 twice"),
    Probe::same("free", "inner", "cuMemFree_v2 of an object's middle"),
    Probe::swapped(
        "free",
        "busy",
        "cuMemFree_v2 of what pending work still uses",
    ),
];
