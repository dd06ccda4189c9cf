//! Memory, pools and arrays.

use super::objects::Object::{
    Array, Array3D, Handle, Host, Location, Low, Mapped, Mipmapped, Plain, Pool, Properties,
};
use super::query::Arg::{Fields, Gives, Is, Of};
use super::query::Query;

pub(super) const QUERIES: &[Query] = &[
    Query::new("cuMemGetInfo_v2", &[Gives(8), Gives(8)]),
    Query::maybe("cuMemGetInfo", &[Gives(4), Gives(4)]),
    Query::new("cuMemGetAddressRange_v2", &[Gives(8), Gives(8), Of(Plain)]),
    Query::maybe("cuMemGetAddressRange", &[Gives(4), Gives(4), Of(Low)]),
    Query::new("cuMemHostGetDevicePointer_v2", &[Gives(8), Of(Host), Is(0)]),
    Query::maybe("cuMemHostGetDevicePointer", &[Gives(4), Of(Host), Is(0)]),
    Query::new("cuMemHostGetFlags", &[Gives(4), Of(Host)]),
    Query::new("cuMemGetAccess", &[Gives(8), Of(Location), Of(Mapped)]),
    Query::new("cuMemPoolGetAccess", &[Gives(4), Of(Pool), Of(Location)]),
    Query::new(
        "cuMemGetAllocationGranularity",
        &[Gives(8), Of(Properties), Is(0)],
    ),
    Query::new(
        "cuMemGetAllocationPropertiesFromHandle",
        &[Gives(32), Of(Handle)],
    ),
    Query::new("cuIpcGetMemHandle", &[Gives(64), Of(Plain)]),
    // Three switches, and sums of bytes.
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(1), Gives(4)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(2), Gives(4)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(3), Gives(4)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(4), Gives(8)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(5), Gives(8)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(6), Gives(8)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(7), Gives(8)]),
    Query::new("cuMemPoolGetAttribute", &[Of(Pool), Is(8), Gives(8)]),
    Query::new("cuPointerGetAttribute", &[Gives(4), Is(2), Of(Plain)]),
    Query::new("cuArrayGetDescriptor_v2", &[Gives(24), Of(Array)]),
    Query::maybe("cuArrayGetDescriptor", &[Gives(16), Of(Array)]),
    // CUDA_ARRAY3D_DESCRIPTOR: three sizes, three numbers of 32 bits, of 40 bytes in all.
    Query::new(
        "cuArray3DGetDescriptor_v2",
        &[Fields(40, &[0..24, 24..36]), Of(Array3D)],
    ),
    Query::maybe("cuArray3DGetDescriptor", &[Gives(24), Of(Array3D)]),
    Query::new(
        "cuMipmappedArrayGetLevel",
        &[Gives(8), Of(Mipmapped), Is(0)],
    ),
    // CUDA 13: four enumerations or numbers, the greatest size, and whether it decompresses.
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(9), Gives(4)]),
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(10), Gives(4)]),
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(11), Gives(4)]),
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(12), Gives(4)]),
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(13), Gives(8)]),
    Query::maybe("cuMemPoolGetAttribute", &[Of(Pool), Is(14), Gives(4)]),
    // CU_MEM_ALLOCATION_TYPE_PINNED.
    Query::new("cuMemGetDefaultMemPool", &[Gives(8), Of(Location), Is(1)]),
    Query::new("cuMemGetMemPool", &[Gives(8), Of(Location), Is(1)]),
];
