//! Memory in a stream's order, and its pools. Plain pools give memory of the arena; the driver's
//! own ones stay beside them, with their attributes, and give what is captured.

use core::ffi::{c_int, c_uint, c_void};
use core::mem::offset_of;

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{
    CUdeviceptr, CUmemPoolProps, CUstream, Location, MemoryPool, Status, Stream, given,
};
use rtswap_agent_core::outside::Held;

use super::alloc::let_go;
use super::graph::memory_of;
use super::{enter_on, hooks};

hooks! {
    alloc: cuMemAllocAsync (found: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    alloc_ptsz: cuMemAllocAsync_ptsz (found: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    alloc_from: cuMemAllocFromPoolAsync (
        found: *mut CUdeviceptr, bytes: usize, pool: *mut c_void, stream: CUstream);
    alloc_from_ptsz: cuMemAllocFromPoolAsync_ptsz (
        found: *mut CUdeviceptr, bytes: usize, pool: *mut c_void, stream: CUstream);
    free: cuMemFreeAsync (at: CUdeviceptr, stream: CUstream);
    free_ptsz: cuMemFreeAsync_ptsz (at: CUdeviceptr, stream: CUstream);
    create: cuMemPoolCreate (made: *mut *mut c_void, props: *const c_void);
    destroy: cuMemPoolDestroy (pool: *mut c_void);
    trim: cuMemPoolTrimTo (pool: *mut c_void, keep: usize);
    set_attribute: cuMemPoolSetAttribute (
        pool: *mut c_void, attribute: c_uint, value: *mut c_void);
    get_attribute: cuMemPoolGetAttribute (
        pool: *mut c_void, attribute: c_uint, value: *mut c_void);
    set_access: cuMemPoolSetAccess (pool: *mut c_void, list: *const Access, count: usize);
    default_of: cuMemGetDefaultMemPool (
        found: *mut *mut c_void, location: *const Location, kind: c_uint);
    current_of: cuMemGetMemPool (found: *mut *mut c_void, location: *const Location, kind: c_uint);
    alloc_node: cuGraphAddMemAllocNode (
        made: *mut *mut c_void, graph: *mut c_void, after: *const c_void, count: usize,
        params: *mut c_void);
    graph_trim: cuDeviceGraphMemTrim (device: c_int);
}

/// CUmemPoolProps, with numbers where a newer driver may have values that no enum lists.
#[repr(C)]
struct Props {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    security: *mut c_void,
    most: usize,
    usage: u16,
}

const _: () = assert!(
    offset_of!(Props, location) == offset_of!(CUmemPoolProps, location)
        && offset_of!(Props, most) == offset_of!(CUmemPoolProps, maxSize)
        && offset_of!(Props, usage) == offset_of!(CUmemPoolProps, usage)
);

/// CUmemAccessDesc, likewise.
#[repr(C)]
pub(super) struct Access {
    location: Location,
    rights: c_uint,
}

/// CU_MEM_ALLOCATION_TYPE_PINNED.
const PINNED: c_uint = 1;

/// CUmemPool_attribute.
mod attribute {
    use core::ffi::c_uint;

    pub(super) const RELEASE_THRESHOLD: c_uint = 4;
    pub(super) const RESERVED_CURRENT: c_uint = 5;
    pub(super) const RESERVED_HIGH: c_uint = 6;
    pub(super) const USED_CURRENT: c_uint = 7;
    pub(super) const USED_HIGH: c_uint = 8;
}

fn name(pool: *mut c_void) -> MemoryPool {
    MemoryPool(pool.addr())
}

/// The stream that a function of the ordinary kind means.
fn ordinary(stream: CUstream) -> Stream {
    Stream::meant_by(Some(stream), false)
}

/// The stream that a function of the per-thread kind means.
fn per_thread(stream: CUstream) -> Stream {
    Stream::meant_by(Some(stream), true)
}

/// # Safety
/// `found` is null or may be written, and is what `call` fills.
unsafe fn take(
    found: *mut CUdeviceptr,
    bytes: usize,
    stream: Stream,
    pool: Option<*mut c_void>,
    mut call: impl FnMut() -> Status,
) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    if found.is_null() {
        return call();
    }
    match agent.alloc_async(bytes as u64, stream, pool.map(name)) {
        Some(Ok(at)) => {
            // SAFETY: by the caller's promise, not null.
            unsafe { *found = at };
            Status::SUCCESS
        }
        Some(Err(status)) => status,
        None => {
            let mut call = || match enter_on(agent, stream, &|_| ()) {
                Ok(_call) => call(),
                Err(status) => status,
            };
            if pool.is_some_and(|pool| agent.is_elsewhere(name(pool))) {
                return call();
            }
            if agent.driver.stream_captures(stream) {
                let place = agent.ordered_gpu(stream, pool.map(name));
                return agent.hold_for_graph(place.map(Location::device), bytes as u64, call);
            }
            // SAFETY: the driver fills it where it succeeds.
            let made = || Some(Held::Memory(unsafe { *found }));
            agent.hold(bytes as u64, true, call, made)
        }
    }
}

unsafe fn alloc(
    real: cuMemAllocAsync::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Status {
    let on = ordinary(stream);
    // SAFETY: the caller's arguments.
    unsafe { take(found, bytes, on, None, || real(found, bytes, stream)) }
}

unsafe fn alloc_ptsz(
    real: cuMemAllocAsync_ptsz::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Status {
    let on = per_thread(stream);
    // SAFETY: the caller's arguments.
    unsafe { take(found, bytes, on, None, || real(found, bytes, stream)) }
}

unsafe fn alloc_from(
    real: cuMemAllocFromPoolAsync::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    pool: *mut c_void,
    stream: CUstream,
) -> Status {
    let on = ordinary(stream);
    // SAFETY: the caller's arguments.
    unsafe {
        take(found, bytes, on, Some(pool), || {
            real(found, bytes, pool, stream)
        })
    }
}

unsafe fn alloc_from_ptsz(
    real: cuMemAllocFromPoolAsync_ptsz::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    pool: *mut c_void,
    stream: CUstream,
) -> Status {
    let on = per_thread(stream);
    // SAFETY: the caller's arguments.
    unsafe {
        take(found, bytes, on, Some(pool), || {
            real(found, bytes, pool, stream)
        })
    }
}

fn give(at: CUdeviceptr, stream: Stream, call: impl FnOnce() -> Status) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    if let Some(result) = agent.free_async(at, stream) {
        return result.into();
    }
    let_go(at, || match enter_on(agent, stream, &|_| ()) {
        Ok(_call) => call(),
        Err(status) => status,
    })
}

unsafe fn free(real: cuMemFreeAsync::Function, at: CUdeviceptr, stream: CUstream) -> Status {
    // SAFETY: the caller's arguments.
    give(at, ordinary(stream), || unsafe { real(at, stream) })
}

unsafe fn free_ptsz(
    real: cuMemFreeAsync_ptsz::Function,
    at: CUdeviceptr,
    stream: CUstream,
) -> Status {
    // SAFETY: the caller's arguments.
    give(at, per_thread(stream), || unsafe { real(at, stream) })
}

unsafe fn create(
    real: cuMemPoolCreate::Function,
    made: *mut *mut c_void,
    props: *const c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(made, props) };
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: null, or what the driver filled.
        && let Some(&pool) = unsafe { made.as_ref() }
        // SAFETY: null, or what the driver read.
        && let Some(props) = unsafe { given(props.cast::<Props>()) }
    {
        if props.location.kind == Location::DEVICE {
            let plain = props.kind == PINNED && props.handle_types == 0 && props.usage == 0;
            agent.pool_made(name(pool), props.location.id, plain, props.most as u64);
        } else if is_of_host(props.kind, props.location) {
            agent.pool_elsewhere(name(pool));
        }
        // What any other pool gives is the driver's, and counted on the current GPU.
    }
    status
}

/// Managed memory that is made on the host may move to a GPU.
fn is_of_host(kind: c_uint, location: Location) -> bool {
    kind == PINNED && location.is_host()
}

/// The program learns a pool that the driver has from the beginning, or that was set.
///
/// # Safety
/// `found` and `location` are null or what `call` was given.
unsafe fn learnt(
    found: *mut *mut c_void,
    location: *const Location,
    kind: c_uint,
    call: impl FnOnce() -> Status,
) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: by the caller's promise; the driver filled it.
        && let Some(&pool) = unsafe { found.as_ref() }
        // SAFETY: by the caller's promise.
        && let Some(&location) = unsafe { given(location) }
        && is_of_host(kind, location)
    {
        agent.pool_elsewhere(name(pool));
    }
    status
}

unsafe fn default_of(
    real: cuMemGetDefaultMemPool::Function,
    found: *mut *mut c_void,
    location: *const Location,
    kind: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learnt(found, location, kind, || real(found, location, kind)) }
}

unsafe fn current_of(
    real: cuMemGetMemPool::Function,
    found: *mut *mut c_void,
    location: *const Location,
    kind: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learnt(found, location, kind, || real(found, location, kind)) }
}

unsafe fn destroy(real: cuMemPoolDestroy::Function, pool: *mut c_void) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(pool) };
    if status == Status::SUCCESS
        && let Some(agent) = agent()
    {
        agent.pool_destroyed(name(pool));
    }
    status
}

unsafe fn trim(real: cuMemPoolTrimTo::Function, pool: *mut c_void, keep: usize) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(pool, keep) };
    match agent().filter(|_| status == Status::SUCCESS) {
        Some(agent) => agent.pool_trim(name(pool), keep as u64).into(),
        None => status,
    }
}

unsafe fn set_attribute(
    real: cuMemPoolSetAttribute::Function,
    pool: *mut c_void,
    attribute: c_uint,
    value: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(pool, attribute, value) };
    let Some(agent) = agent().filter(|_| status == Status::SUCCESS) else {
        return status;
    };
    match attribute {
        attribute::RELEASE_THRESHOLD => {
            // SAFETY: the driver read this type for this attribute.
            let bytes = unsafe { value.cast::<u64>().read_unaligned() };
            agent.pool_keeps(name(pool), bytes);
        }
        attribute::RESERVED_HIGH => agent.pool_reset(name(pool), false),
        attribute::USED_HIGH => agent.pool_reset(name(pool), true),
        _ => {}
    }
    status
}

unsafe fn get_attribute(
    real: cuMemPoolGetAttribute::Function,
    pool: *mut c_void,
    attribute: c_uint,
    value: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(pool, attribute, value) };
    let ours = agent()
        .filter(|_| status == Status::SUCCESS)
        .and_then(|agent| agent.pool_levels(name(pool)));
    let Some((reserved, used)) = ours else {
        return status;
    };
    let bytes = match attribute {
        attribute::RESERVED_CURRENT => reserved.now,
        attribute::RESERVED_HIGH => reserved.most,
        attribute::USED_CURRENT => used.now,
        attribute::USED_HIGH => used.most,
        _ => return status,
    };
    // SAFETY: the driver filled this type for these attributes; what it gave itself counts too.
    unsafe {
        let value = value.cast::<u64>();
        value.write_unaligned(value.read_unaligned().saturating_add(bytes));
    }
    status
}

unsafe fn set_access(
    real: cuMemPoolSetAccess::Function,
    pool: *mut c_void,
    list: *const Access,
    count: usize,
) -> Status {
    if let Some(agent) = agent()
        && !list.is_null()
        && count > 0
    {
        // SAFETY: the caller's list; any bits are a valid `Access`.
        let list = unsafe { core::slice::from_raw_parts(list, count) };
        let own = agent.pool_gpu(name(pool));
        let others = |access: &Access| {
            let own = own.map(Location::device);
            access.rights != 0 && Some(access.location) != own
        };
        if list.iter().any(others)
            && let Err(status) = agent.pool_shared(name(pool))
        {
            return status;
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real(pool, list, count) }
}

unsafe fn alloc_node(
    real: cuGraphAddMemAllocNode::Function,
    made: *mut *mut c_void,
    graph: *mut c_void,
    after: *const c_void,
    count: usize,
    params: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(made, graph, after, count, params) };
    let Some(agent) = agent().filter(|_| !params.is_null()) else {
        return call();
    };
    // SAFETY: the caller's parameters.
    let (place, bytes) = unsafe { memory_of(params) };
    agent.hold_for_graph(Some(place), bytes, call)
}

unsafe fn graph_trim(real: cuDeviceGraphMemTrim::Function, device: c_int) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(device) };
    if let Some(agent) = agent()
        && let Some(device) = agent.device(device)
    {
        agent.recount_graphs(device);
    }
    status
}
