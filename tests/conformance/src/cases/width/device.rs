//! Devices and their primary contexts.

use super::objects::Object::{BusId, Device};
use super::query::Arg::{Fields, Gives, Is, Of};
use super::query::Query;

pub(super) const QUERIES: &[Query] = &[
    Query::new("cuDriverGetVersion", &[Gives(4)]),
    Query::new("cuDeviceGet", &[Gives(4), Is(0)]),
    Query::new("cuDeviceGetCount", &[Gives(4)]),
    Query::new("cuDeviceGetName", &[Gives(9), Is(9), Of(Device)]),
    Query::new("cuDeviceGetPCIBusId", &[Gives(13), Is(13), Of(Device)]),
    Query::new("cuDeviceGetByPCIBusId", &[Gives(4), Of(BusId)]),
    Query::new("cuDeviceGetAttribute", &[Gives(4), Is(1), Of(Device)]),
    Query::new("cuDeviceGetUuid", &[Gives(16), Of(Device)]),
    Query::new("cuDeviceGetUuid_v2", &[Gives(16), Of(Device)]),
    Query::new("cuDeviceTotalMem_v2", &[Gives(8), Of(Device)]),
    Query::maybe("cuDeviceTotalMem", &[Gives(4), Of(Device)]),
    Query::new(
        "cuDeviceComputeCapability",
        &[Gives(4), Gives(4), Of(Device)],
    ),
    Query::new(
        "cuDevicePrimaryCtxGetState",
        &[Of(Device), Gives(4), Gives(4)],
    ),
    Query::new("cuDeviceCanAccessPeer", &[Gives(4), Of(Device), Of(Device)]),
    // With itself a device has no peer.
    Query::maybe(
        "cuDeviceGetP2PAttribute",
        &[Gives(4), Is(2), Of(Device), Of(Device)],
    ),
    Query::maybe("cuDeviceGetP2PAttribute", &[Gives(4), Is(2), Is(0), Is(1)]),
    Query::new("cuDeviceGetDefaultMemPool", &[Gives(8), Of(Device)]),
    Query::new("cuDeviceGetMemPool", &[Gives(8), Of(Device)]),
    Query::new(
        "cuDeviceGetGraphMemAttribute",
        &[Of(Device), Is(0), Gives(8)],
    ),
    Query::new(
        "cuDeviceGetGraphMemAttribute",
        &[Of(Device), Is(3), Gives(8)],
    ),
    // CUdevResource: its type, and how many multiprocessors.
    Query::maybe(
        "cuDeviceGetDevResource",
        &[Of(Device), Fields(144, &[0..4, 96..100]), Is(1)],
    ),
];
