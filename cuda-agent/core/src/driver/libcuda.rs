//! The real driver, by the addresses of its functions.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use cudarc::driver::sys::{
    CUevent_flags, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmodule, CUstream_flags,
};

use super::{Driver, Node, Result, Unfit};
use crate::cuda::{
    Access, AllocationProp, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUevent,
    CUfunction, CUgraph, CUgraphNode, CUmemAllocationProp, CUstream, CUuuid, CaptureMode, Context,
    Event, Function, Graph, Handle, Memcpy3D, MemoryPool, Status, Stream,
};
use crate::gate::Inside;
use crate::writes::Writes;

macro_rules! functions {
    ($($field:ident: $symbol:literal ($($arg:ty),*);)*
     $([optional] $newer:ident: $new:literal ($($new_arg:ty),*);)*) => {
        /// The addresses of the driver's functions that the agent itself calls.
        #[derive(Debug)]
        pub struct Libcuda {
            $($field: unsafe extern "C" fn($($arg),*) -> Status,)*
            /// Not in every driver that is still in use.
            $($newer: Option<unsafe extern "C" fn($($new_arg),*) -> Status>,)*
        }

        impl Libcuda {
            /// Finds every function with `find`; the name of the first missing one otherwise.
            ///
            /// # Safety
            /// `find` gives null or the driver's function of that name.
            pub unsafe fn load(
                find: impl Fn(&core::ffi::CStr) -> *mut c_void,
            ) -> core::result::Result<Self, &'static core::ffi::CStr> {
                Ok(Self {
                    $($field: {
                        let address = find($symbol);
                        if address.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the caller found the function of this name, and the driver's
                        // ABI gives it this signature.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) -> Status,
                            >(address)
                        }
                    },)*
                    $($newer: {
                        let address = find($new);
                        // SAFETY: as above; null is no function.
                        (!address.is_null()).then(|| unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($new_arg),*) -> Status,
                            >(address)
                        })
                    },)*
                })
            }
        }
    };
}

functions! {
    device_get_count: c"cuDeviceGetCount" (*mut c_int);
    driver_get_version: c"cuDriverGetVersion" (*mut c_int);
    device_get_attribute: c"cuDeviceGetAttribute" (*mut c_int, c_int, CUdevice);
    device_get_uuid: c"cuDeviceGetUuid_v2" (*mut CUuuid, CUdevice);
    device_total_mem: c"cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    get_granularity: c"cuMemGetAllocationGranularity"
        (*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    ctx_get_current: c"cuCtxGetCurrent" (*mut CUcontext);
    ctx_set_current: c"cuCtxSetCurrent" (CUcontext);
    ctx_get_device: c"cuCtxGetDevice" (*mut CUdevice);
    ctx_synchronize: c"cuCtxSynchronize" ();
    exchange_mode: c"cuThreadExchangeStreamCaptureMode" (*mut c_uint);
    address_reserve: c"cuMemAddressReserve" (*mut CUdeviceptr, usize, usize, CUdeviceptr, u64);
    address_free: c"cuMemAddressFree" (CUdeviceptr, usize);
    mem_export: c"cuMemExportToShareableHandle" (*mut c_void, u64, c_uint, u64);
    mem_import: c"cuMemImportFromShareableHandle" (*mut u64, *mut c_void, c_uint);
    mem_create: c"cuMemCreate" (*mut u64, usize, *const CUmemAllocationProp, u64);
    mem_map: c"cuMemMap" (CUdeviceptr, usize, usize, u64, u64);
    set_access: c"cuMemSetAccess" (CUdeviceptr, usize, *const Access, usize);
    mem_unmap: c"cuMemUnmap" (CUdeviceptr, usize);
    mem_release: c"cuMemRelease" (u64);
    host_alloc: c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free: c"cuMemFreeHost" (*mut c_void);
    htod: c"cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    dtoh: c"cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    dtod: c"cuMemcpyDtoDAsync_v2" (CUdeviceptr, CUdeviceptr, usize, CUstream);
    module_load: c"cuModuleLoadData" (*mut CUmodule, *const c_void);
    module_function: c"cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    launch_kernel: c"cuLaunchKernel"
        (CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
         *mut *mut c_void, *mut *mut c_void);
    stream_create: c"cuStreamCreate" (*mut CUstream, c_uint);
    stream_destroy: c"cuStreamDestroy_v2" (CUstream);
    stream_query: c"cuStreamQuery" (CUstream);
    stream_is_capturing: c"cuStreamIsCapturing" (CUstream, *mut c_uint);
    event_create: c"cuEventCreate" (*mut CUevent, c_uint);
    event_record: c"cuEventRecord" (CUevent, CUstream);
    event_query: c"cuEventQuery" (CUevent);
    event_synchronize: c"cuEventSynchronize" (CUevent);
    event_destroy: c"cuEventDestroy_v2" (CUevent);
    [optional] stream_get_ctx: c"cuStreamGetCtx" (CUstream, *mut CUcontext);
    [optional] stream_get_ctx_v2: c"cuStreamGetCtx_v2" (CUstream, *mut CUcontext, *mut *mut c_void);
    [optional] get_mem_pool: c"cuDeviceGetMemPool" (*mut *mut c_void, CUdevice);
    [optional] get_default_pool: c"cuDeviceGetDefaultMemPool" (*mut *mut c_void, CUdevice);
    [optional] graph_get_nodes: c"cuGraphGetNodes" (CUgraph, *mut CUgraphNode, *mut usize);
    [optional] graph_node_type: c"cuGraphNodeGetType" (CUgraphNode, *mut c_uint);
    [optional] graph_copy: c"cuGraphMemcpyNodeGetParams" (CUgraphNode, *mut Memcpy3D);
    [optional] graph_set: c"cuGraphMemsetNodeGetParams"
        (CUgraphNode, *mut CUDA_MEMSET_NODE_PARAMS);
    [optional] graph_child: c"cuGraphChildGraphNodeGetGraph" (CUgraphNode, *mut CUgraph);
    [optional] get_graph_memory: c"cuDeviceGetGraphMemAttribute" (CUdevice, c_uint, *mut c_void);
}

/// CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT.
const GRAPH_RESERVED: c_uint = 2;

/// CU_MEMHOSTALLOC_PORTABLE.
const PORTABLE: c_uint = 1;

fn location(device: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// CU_DEVICE_ATTRIBUTE_INTEGRATED.
const INTEGRATED: c_int = 18;
/// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
const VIRTUAL_MEMORY: c_int = 102;
/// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED.
const EXPORTS_DESCRIPTORS: c_int = 103;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const DESCRIPTOR: c_uint = 1;
/// From this CUDA version on memory that may be exported costs nothing more until it is; before,
/// programs saw it slow down.
const EXPORTS_FREELY: c_int = 12_020;

fn properties(device: i32) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: null_mut(),
        // SAFETY: plain flags, for which zero means none.
        allocFlags: unsafe { core::mem::zeroed() },
    }
}

/// Calls one of the functions: its arguments are values or point to locals that outlive the call.
macro_rules! call {
    ($self:ident.$function:ident($($arg:expr),*)) => {{
        let _inside = Inside::begin();
        // SAFETY: the function has this signature (see `load`), its pointers are to live locals.
        unsafe { ($self.$function)($($arg),*) }.ok()
    }};
}

/// The same for one that the driver may lack.
macro_rules! call_if_there {
    ($self:ident.$function:ident($($arg:expr),*)) => {
        match $self.$function {
            Some(function) => {
                let _inside = Inside::begin();
                // SAFETY: as for the others.
                unsafe { function($($arg),*) }.ok()
            }
            None => Err(Status::NOT_FOUND),
        }
    };
}

impl Driver for Libcuda {
    fn device_count(&self) -> Result<i32> {
        let mut count = 0;
        call!(self.device_get_count(&raw mut count))?;
        Ok(count)
    }

    fn device_uuid(&self, device: i32) -> Result<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        call!(self.device_get_uuid(&raw mut uuid, device))?;
        // C's char has a sign on some processors only.
        Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }

    fn unfit(&self, device: i32) -> Result<Option<Unfit>> {
        let (mut integrated, mut virtual_memory) = (0, 0);
        call!(self.device_get_attribute(&raw mut integrated, INTEGRATED, device))?;
        call!(self.device_get_attribute(&raw mut virtual_memory, VIRTUAL_MEMORY, device))?;
        Ok(if integrated != 0 {
            Some(Unfit::Integrated)
        } else if virtual_memory == 0 {
            Some(Unfit::NoVirtualMemory)
        } else {
            None
        })
    }

    fn device_memory(&self, device: i32) -> Result<u64> {
        let mut bytes = 0;
        call!(self.device_total_mem(&raw mut bytes, device))?;
        Ok(bytes as u64)
    }

    fn granularity(&self, device: i32) -> Result<u64> {
        let mut bytes = 0;
        let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let prop = properties(device);
        call!(self.get_granularity(&raw mut bytes, &raw const prop, minimum))?;
        Ok(bytes as u64)
    }

    fn current_context(&self) -> Result<Option<Context>> {
        let mut context = null_mut();
        call!(self.ctx_get_current(&raw mut context))?;
        Ok((!context.is_null()).then(|| Context(context.addr())))
    }

    fn set_context(&self, context: Option<Context>) -> Result<()> {
        let raw = context.map_or(0, |context| context.0);
        call!(self.ctx_set_current(raw as CUcontext))
    }

    fn current_device(&self) -> Result<i32> {
        let mut device = 0;
        call!(self.ctx_get_device(&raw mut device))?;
        Ok(device)
    }

    fn synchronize(&self) -> Result<()> {
        call!(self.ctx_synchronize())
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let mut mode = mode.0;
        call!(self.exchange_mode(&raw mut mode))?;
        Ok(CaptureMode(mode))
    }

    fn reserve(&self, bytes: u64, align: u64) -> Result<u64> {
        let mut at = 0;
        call!(self.address_reserve(&raw mut at, bytes as usize, align as usize, 0, 0))?;
        Ok(at)
    }

    fn create(&self, device: i32, bytes: u64) -> Result<Handle> {
        let mut handle = 0;
        let mut prop = properties(device);
        if self.can_export(device) {
            prop.requestedHandleTypes =
                CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        }
        call!(self.mem_create(&raw mut handle, bytes as usize, &raw const prop, 0))?;
        Ok(Handle(handle))
    }

    fn create_as(&self, prop: &AllocationProp, bytes: u64) -> Result<Handle> {
        let mut handle = 0;
        let prop = core::ptr::from_ref(prop).cast();
        call!(self.mem_create(&raw mut handle, bytes as usize, prop, 0))?;
        Ok(Handle(handle))
    }

    fn map(&self, at: u64, bytes: u64, handle: Handle) -> Result<()> {
        call!(self.mem_map(at, bytes as usize, 0, handle.0, 0))
    }

    fn set_access(&self, at: u64, bytes: u64, access: &[Access]) -> Result<()> {
        call!(self.set_access(at, bytes as usize, access.as_ptr(), access.len()))
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<()> {
        call!(self.mem_unmap(at, bytes as usize))
    }

    fn release(&self, handle: Handle) -> Result<()> {
        call!(self.mem_release(handle.0))
    }

    fn can_export(&self, device: i32) -> bool {
        let (mut version, mut exports) = (0, 0);
        call!(self.driver_get_version(&raw mut version)).is_ok()
            && version >= EXPORTS_FREELY
            && call!(self.device_get_attribute(&raw mut exports, EXPORTS_DESCRIPTORS, device))
                .is_ok()
            && exports != 0
    }

    fn export(&self, handle: Handle) -> Result<OwnedFd> {
        let mut fd: c_int = -1;
        call!(self.mem_export((&raw mut fd).cast(), handle.0, DESCRIPTOR, 0))?;
        // SAFETY: a new descriptor that the driver gave away.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn import(&self, descriptor: BorrowedFd<'_>) -> Result<Handle> {
        let mut handle = 0;
        let number = descriptor.as_raw_fd() as usize;
        let number = core::ptr::without_provenance_mut(number);
        call!(self.mem_import(&raw mut handle, number, DESCRIPTOR))?;
        Ok(Handle(handle))
    }

    fn unreserve(&self, at: u64, bytes: u64) -> Result<()> {
        call!(self.address_free(at, bytes as usize))
    }

    fn pin(&self, bytes: u64) -> Result<usize> {
        let mut host = null_mut();
        call!(self.host_alloc(&raw mut host, bytes as usize, PORTABLE))?;
        Ok(host.expose_provenance())
    }

    fn unpin(&self, host: usize) -> Result<()> {
        call!(self.host_free(core::ptr::with_exposed_provenance_mut(host)))
    }

    unsafe fn copy_in(&self, to: u64, host: usize, bytes: u64, stream: Stream) -> Result<()> {
        let host = core::ptr::with_exposed_provenance(host);
        call!(self.htod(to, host, bytes as usize, stream.0 as CUstream))
    }

    unsafe fn copy_out(&self, host: usize, from: u64, bytes: u64, stream: Stream) -> Result<()> {
        let host = core::ptr::with_exposed_provenance_mut(host);
        call!(self.dtoh(host, from, bytes as usize, stream.0 as CUstream))
    }

    fn copy_within(&self, to: u64, from: u64, bytes: u64, stream: Stream) -> Result<()> {
        call!(self.dtod(to, from, bytes as usize, stream.0 as CUstream))
    }

    fn load(&self, image: &CStr, name: &CStr) -> Result<Function> {
        let (mut module, mut function) = (null_mut(), null_mut());
        call!(self.module_load(&raw mut module, image.as_ptr().cast()))?;
        call!(self.module_function(&raw mut function, module, name.as_ptr()))?;
        Ok(Function(function.addr()))
    }

    unsafe fn launch(
        &self,
        function: Function,
        (blocks, threads): (u32, u32),
        arguments: &[u64],
        stream: Stream,
    ) -> Result<()> {
        let places = arguments.iter().map(core::ptr::from_ref);
        let mut places: Vec<_> = places.map(|at| at.cast_mut().cast::<c_void>()).collect();
        let (function, stream) = (function.0 as CUfunction, stream.0 as CUstream);
        call!(self.launch_kernel(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            places.as_mut_ptr(),
            null_mut()
        ))
    }

    fn create_stream(&self) -> Result<Stream> {
        let mut stream = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        call!(self.stream_create(&raw mut stream, flags))?;
        Ok(Stream(stream.addr()))
    }

    fn destroy_stream(&self, stream: Stream) -> Result<()> {
        call!(self.stream_destroy(stream.0 as CUstream))
    }

    fn stream_context(&self, stream: Stream) -> Result<Context> {
        let (mut context, mut green) = (null_mut(), null_mut());
        let stream = stream.0 as CUstream;
        // The later form tells the primary context of a green one, of which the former says nothing.
        let told = call_if_there!(self.stream_get_ctx_v2(stream, &raw mut context, &raw mut green));
        match told {
            Err(Status::NOT_FOUND) => {
                call_if_there!(self.stream_get_ctx(stream, &raw mut context))?;
            }
            told => told?,
        }
        Ok(Context(context.addr()))
    }

    fn current_pool(&self, device: i32) -> Result<MemoryPool> {
        let mut pool = null_mut();
        call_if_there!(self.get_mem_pool(&raw mut pool, device))?;
        Ok(MemoryPool(pool.addr()))
    }

    fn default_pool(&self, device: i32) -> Result<MemoryPool> {
        let mut pool = null_mut();
        call_if_there!(self.get_default_pool(&raw mut pool, device))?;
        Ok(MemoryPool(pool.addr()))
    }

    fn graph_memory(&self, device: i32) -> Result<u64> {
        let mut bytes = 0u64;
        call_if_there!(self.get_graph_memory(device, GRAPH_RESERVED, (&raw mut bytes).cast()))?;
        Ok(bytes)
    }

    fn graph_nodes(&self, graph: Graph) -> Result<Vec<Node>> {
        let (graph, mut count) = (graph.0 as CUgraph, 0);
        call_if_there!(self.graph_get_nodes(graph, null_mut(), &raw mut count))?;
        let mut nodes: Vec<CUgraphNode> = vec![null_mut(); count];
        call_if_there!(self.graph_get_nodes(graph, nodes.as_mut_ptr(), &raw mut count))?;
        nodes.truncate(count);
        nodes
            .into_iter()
            .map(|node| self.graph_node(node))
            .collect()
    }

    fn stream_done(&self, stream: Stream) -> bool {
        call!(self.stream_query(stream.0 as CUstream)) != Err(Status::NOT_READY)
    }

    fn stream_captures(&self, stream: Stream) -> bool {
        let mut captures = 0;
        call!(self.stream_is_capturing(stream.0 as CUstream, &raw mut captures)).is_ok()
            && captures != 0
    }

    fn create_event(&self) -> Result<Event> {
        let mut event = null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
        call!(self.event_create(&raw mut event, flags))?;
        Ok(Event(event.addr()))
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        call!(self.event_record(event.0 as CUevent, stream.0 as CUstream))
    }

    fn event_done(&self, event: Event) -> bool {
        call!(self.event_query(event.0 as CUevent)) != Err(Status::NOT_READY)
    }

    fn wait_event(&self, event: Event) -> Result<()> {
        call!(self.event_synchronize(event.0 as CUevent))
    }

    fn destroy_event(&self, event: Event) -> Result<()> {
        call!(self.event_destroy(event.0 as CUevent))
    }
}

/// CUgraphNodeType.
mod node {
    use core::ffi::c_uint;

    pub(super) const KERNEL: c_uint = 0;
    pub(super) const COPY: c_uint = 1;
    pub(super) const SET: c_uint = 2;
    pub(super) const HOST: c_uint = 3;
    pub(super) const CHILD: c_uint = 4;
    pub(super) const EMPTY: c_uint = 5;
    pub(super) const WAIT_EVENT: c_uint = 6;
    pub(super) const RECORD: c_uint = 7;
    /// Memory of the graph's own, from its allocation to its free.
    pub(super) const ALLOC: c_uint = 10;
    pub(super) const FREE: c_uint = 11;
}

impl Libcuda {
    fn graph_node(&self, node: CUgraphNode) -> Result<Node> {
        let mut kind = 0;
        call_if_there!(self.graph_node_type(node, &raw mut kind))?;
        Ok(match kind {
            node::COPY => {
                let mut copy = MaybeUninit::<Memcpy3D>::zeroed();
                call_if_there!(self.graph_copy(node, copy.as_mut_ptr()))?;
                // SAFETY: numbers only, zeroed and then filled by the driver.
                Node::Writes(Writes::from(unsafe { copy.assume_init_ref() }))
            }
            node::SET => {
                let mut set = MaybeUninit::zeroed();
                call_if_there!(self.graph_set(node, set.as_mut_ptr()))?;
                // SAFETY: the driver filled it.
                Node::Writes(Writes::from(unsafe { set.assume_init_ref() }))
            }
            node::CHILD => {
                let mut child = null_mut();
                call_if_there!(self.graph_child(node, &raw mut child))?;
                Node::Child(Graph(child.addr()))
            }
            // Host functions may not call the driver.
            node::KERNEL
            | node::HOST
            | node::EMPTY
            | node::WAIT_EVENT
            | node::RECORD
            | node::ALLOC
            | node::FREE => Node::Writes(Writes::Nothing),
            _ => Node::Other,
        })
    }
}
