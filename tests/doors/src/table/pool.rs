//! Memory in a stream's order, and its pools.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::swapped("pool", "async", "cuMemAllocAsync, cuMemFreeAsync"),
    Probe::swapped(
        "pool",
        "per_thread",
        "cuMemAllocAsync_ptsz, cuMemFreeAsync_ptsz",
    ),
    Probe::swapped(
        "pool",
        "from_pool",
        "cuMemPoolCreate, cuMemAllocFromPoolAsync and its _ptsz form",
    ),
    Probe::swapped(
        "pool",
        "device_pool",
        "cuDeviceGetMemPool, cuDeviceSetMemPool",
    ),
    Probe::swapped(
        "pool",
        "plain_free",
        "cuMemFree_v2 of what cuMemAllocAsync gave",
    ),
    Probe::swapped(
        "pool",
        "order",
        "memory that goes from one stream to another",
    ),
    Probe::swapped(
        "pool",
        "attributes",
        "cuMemPoolSetAttribute, cuMemPoolGetAttribute, cuMemPoolTrimTo",
    ),
    Probe::counted(
        "pool",
        "exportable",
        "cuMemPoolCreate with handle types",
        "another process may map what can be exported",
    ),
    Probe::swapped("pool", "set_pool", "cuMemSetMemPool, cuMemGetMemPool"),
    Probe::counted(
        "pool",
        "host",
        "cuMemPoolCreate in the host, cuMemPoolSetAccess",
        "nothing of it is on a GPU: 0 bytes are counted",
    )
    .on_two_gpus(),
    Probe::counted(
        "pool",
        "host_default",
        "cuMemGetDefaultMemPool of the host",
        "nothing of it is on a GPU: 0 bytes are counted",
    ),
];
