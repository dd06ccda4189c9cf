//! The driver's words in forms that any driver, older or newer than this crate, may fill.

mod copy;

pub use copy::{End2D, End3D, Memcpy2D, Memcpy3D, Memcpy3DPeer};
pub use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_LAUNCH_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext,
    CUctx_st, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraph_st, CUgraphExec,
    CUgraphExec_st, CUgraphNode, CUgraphNode_st, CUgraphNodeParams, CUhostFn, CUlaunchConfig,
    CUmemAllocationProp, CUmemPoolProps, CUstream, CUstream_st, CUuuid,
};

/// A CUresult. Not cudarc's enum: a driver newer than the enum may return what it does not list.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Status(pub u32);

impl Status {
    /// CUDA_SUCCESS.
    pub const SUCCESS: Self = Self(0);
    /// CUDA_ERROR_INVALID_VALUE.
    pub const INVALID_VALUE: Self = Self(1);
    /// CUDA_ERROR_OUT_OF_MEMORY.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// CUDA_ERROR_INVALID_CONTEXT.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// CUDA_ERROR_NOT_FOUND.
    pub const NOT_FOUND: Self = Self(500);
    /// CUDA_ERROR_NOT_PERMITTED.
    pub const NOT_PERMITTED: Self = Self(800);
    /// CUDA_ERROR_NOT_READY.
    pub const NOT_READY: Self = Self(600);
    /// CUDA_ERROR_NOT_SUPPORTED.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// CUDA_ERROR_UNKNOWN.
    pub const UNKNOWN: Self = Self(999);

    /// The status as a result, so that `?` works.
    pub fn ok(self) -> Result<(), Self> {
        if self == Self::SUCCESS {
            Ok(())
        } else {
            Err(self)
        }
    }
}

impl From<Result<(), Status>> for Status {
    fn from(result: Result<(), Status>) -> Self {
        result.err().unwrap_or(Status::SUCCESS)
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    };
}

handle! {
    /// A CUcontext; only a name here.
    Context
}
handle! {
    /// A CUgreenCtx; only a name here.
    Green
}
handle! {
    /// A CUgraph; only a name here.
    Graph
}
handle! {
    /// A CUgraphExec; only a name here.
    GraphExec
}
handle! {
    /// A CUstream; only a name here.
    Stream
}
handle! {
    /// A CUevent; only a name here.
    Event
}
handle! {
    /// A CUfunction; only a name here.
    Function
}

handle! {
    /// A CUmemoryPool; only a name here.
    MemoryPool
}

impl MemoryPool {
    /// Of what was in no pool, or in one that is no more.
    pub const NONE: Self = Self(0);
}

impl Context {
    /// Of what belongs to a GPU and outlives its contexts.
    pub const NONE: Self = Self(0);
}

impl Stream {
    /// CU_STREAM_PER_THREAD: another stream in each thread.
    pub const PER_THREAD: Self = Self(2);

    /// The context's NULL stream, in either of its names (0, CU_STREAM_LEGACY).
    pub const LEGACY: Self = Self(1);

    /// The stream that a function of the per-thread kind, or of the ordinary one, means by its
    /// argument or by having none.
    #[inline]
    pub fn meant_by(stream: Option<CUstream>, per_thread: bool) -> Self {
        match stream.map_or(0, <*mut CUstream_st>::addr) {
            0 if per_thread => Self::PER_THREAD,
            0 => Self::LEGACY,
            stream => Self(stream),
        }
    }

    /// Whether the program made it by a call.
    pub fn is_created(self) -> bool {
        self.0 > Self::PER_THREAD.0
    }
}

/// Physical memory from cuMemCreate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

/// A CUmemLocation. Not cudarc's: its kinds are an enum that a newer driver may exceed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// CUmemLocationType.
    pub kind: u32,
    /// Of the kind.
    pub id: i32,
}

impl Location {
    /// CU_MEM_LOCATION_TYPE_DEVICE.
    pub const DEVICE: u32 = 1;
    /// CU_MEM_LOCATION_TYPE_HOST.
    pub const HOST: u32 = 2;
    /// CU_MEM_LOCATION_TYPE_HOST_NUMA.
    pub const HOST_NUMA: u32 = 3;
    /// CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
    pub const HOST_NUMA_CURRENT: u32 = 4;

    /// Whether what lies there takes nothing of a GPU. False for kinds that are not known: CUDA 13.4 has one that names
    /// a part of a GPU.
    pub fn is_host(self) -> bool {
        matches!(
            self.kind,
            Self::HOST | Self::HOST_NUMA | Self::HOST_NUMA_CURRENT
        )
    }

    /// The GPU with this number.
    pub fn device(id: i32) -> Self {
        let kind = Self::DEVICE;
        Self { kind, id }
    }
}

/// A CUmemAccessDesc: what a location may do with mapped memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who.
    pub location: Location,
    /// CUmemAccess_flags.
    pub rights: u32,
}

impl Access {
    /// CU_MEM_ACCESS_FLAGS_PROT_READ.
    pub const READ: u32 = 1;
    /// CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
    pub const READ_WRITE: u32 = 3;

    /// All of it for a GPU.
    pub fn full(device: i32) -> Self {
        Self {
            location: Location::device(device),
            rights: Self::READ_WRITE,
        }
    }
}

/// A CUstreamCaptureMode of a thread: which calls it may make while streams capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureMode(pub u32);

impl CaptureMode {
    /// CU_STREAM_CAPTURE_MODE_RELAXED: any.
    pub const RELAXED: Self = Self(2);
}

/// A CUmemAllocationProp.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationProp {
    /// CUmemAllocationType.
    pub kind: u32,
    /// CUmemAllocationHandleType: as what it may be exported.
    pub handle_types: u32,
    /// Where it lies.
    pub location: Location,
    /// Only where it may be exported, on another system.
    pub metadata: usize,
    /// Compression, RDMA, the usage.
    pub flags: [u8; 8],
}

impl AllocationProp {
    /// CU_MEM_ALLOCATION_TYPE_PINNED.
    pub const PINNED: u32 = 1;
    /// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and CU_MEM_HANDLE_TYPE_FABRIC.
    pub const SHAREABLE: u32 = 1 | 8;
    /// gpuDirectRDMACapable, the second of `flags`.
    pub const RDMA: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];

    /// Nobody but this process and its GPU will ever ask for the memory.
    pub fn is_private(&self) -> bool {
        self.handle_types == 0 && self.flags == [0; 8]
    }
}

/// The program's structure at `at`, if there is one. Its type must take any bytes: one with an enum,
/// to which a newer program may give a value that the enum lacks, does not compile.
///
/// # Safety
/// `at` is null, or points to a structure that nobody changes as long as the reference lives.
#[inline]
pub unsafe fn given<'a, T>(at: *const T) -> Option<&'a T> {
    const {
        assert!(
            takes_any_bytes::<T>(),
            "C may give what this type cannot hold"
        );
    };
    // SAFETY: by the caller's promise; whatever the bytes are, they are a `T`.
    unsafe { at.as_ref() }
}

/// Whether a structure of C leaves no value over by which the compiler could tell None from Some.
/// Enums, references and booleans leave some.
const fn takes_any_bytes<T>() -> bool {
    size_of::<Option<T>>() > size_of::<T>()
}

const _: () = {
    assert!(size_of::<AllocationProp>() == size_of::<CUmemAllocationProp>());
    assert!(size_of::<Access>() == size_of::<cudarc::driver::sys::CUmemAccessDesc>());
};

#[cfg(test)]
mod tests {
    use cudarc::driver::sys;

    use super::*;

    #[test]
    fn structures_with_an_enum_are_told_from_those_that_take_any_bytes() {
        assert!(!takes_any_bytes::<sys::CUDA_MEMCPY2D>());
        assert!(!takes_any_bytes::<sys::CUDA_MEMCPY3D>());
        assert!(!takes_any_bytes::<sys::CUmemAllocationProp>());
        assert!(takes_any_bytes::<Memcpy2D>() && takes_any_bytes::<Memcpy3D>());
        assert!(takes_any_bytes::<AllocationProp>() && takes_any_bytes::<Access>());
        // C's null is its None.
        assert!(takes_any_bytes::<CUDA_HOST_NODE_PARAMS>());
    }
}
