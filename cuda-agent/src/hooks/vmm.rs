//! The program's own physical memory and mappings.

use core::ffi::{c_int, c_ulonglong, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{Access, AllocationProp, CUdeviceptr, Location, Status};

use super::hooks;

hooks! {
    create: cuMemCreate (
        handle: *mut c_ulonglong, bytes: usize, prop: *const AllocationProp, flags: c_ulonglong);
    release: cuMemRelease (handle: c_ulonglong);
    map: cuMemMap (
        at: CUdeviceptr, bytes: usize, offset: usize, handle: c_ulonglong, flags: c_ulonglong);
    unmap: cuMemUnmap (at: CUdeviceptr, bytes: usize);
    set_access: cuMemSetAccess (
        at: CUdeviceptr, bytes: usize, access: *const Access, count: usize);
    get_access: cuMemGetAccess (
        rights: *mut c_ulonglong, location: *const Location, at: CUdeviceptr);
    reserve: cuMemAddressReserve (
        found: *mut CUdeviceptr, bytes: usize, align: usize, wanted: CUdeviceptr,
        flags: c_ulonglong);
    free: cuMemAddressFree (at: CUdeviceptr, bytes: usize);
    retain: cuMemRetainAllocationHandle (handle: *mut c_ulonglong, at: *mut c_void);
    properties: cuMemGetAllocationPropertiesFromHandle (
        prop: *mut AllocationProp, handle: c_ulonglong);
    export: cuMemExportToShareableHandle (
        shared: *mut c_void, handle: c_ulonglong, kind: c_int, flags: c_ulonglong);
}

unsafe fn create(
    real: cuMemCreate::Function,
    handle: *mut c_ulonglong,
    bytes: usize,
    prop: *const AllocationProp,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(handle, bytes, prop, flags) };
    let Some(agent) = agent().filter(|_| !handle.is_null() && !prop.is_null()) else {
        return call();
    };
    // SAFETY: the caller's pointer, not null; a copy, so that nothing changes it meanwhile.
    let asked = unsafe { *prop };
    let created = agent.create_physical(bytes as u64, &asked, flags, || {
        // SAFETY: the driver filled the caller's pointer.
        call().ok().map(|()| unsafe { *handle })
    });
    // SAFETY: the caller's pointer, not null.
    created.map(|created| unsafe { *handle = created }).into()
}

unsafe fn release(real: cuMemRelease::Function, handle: c_ulonglong) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(handle) };
    match agent() {
        Some(agent) => agent.release_physical(handle, || call().ok()).into(),
        None => call(),
    }
}

unsafe fn map(
    real: cuMemMap::Function,
    at: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: c_ulonglong,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(at, bytes, offset, handle, flags) };
    let Some(agent) = agent() else {
        return call();
    };
    let (size, offset) = (bytes as u64, offset as u64);
    agent
        .map_physical(at, size, offset, handle, flags, || call().ok())
        .into()
}

unsafe fn unmap(real: cuMemUnmap::Function, at: CUdeviceptr, bytes: usize) -> Status {
    // SAFETY: the caller's range or a part of it.
    let call = |at, bytes| unsafe { real(at, bytes) };
    let Some(agent) = agent() else {
        return call(at, bytes);
    };
    agent
        .unmap_physical(at, bytes as u64, |at, part| call(at, part as usize).ok())
        .into()
}

unsafe fn set_access(
    real: cuMemSetAccess::Function,
    at: CUdeviceptr,
    bytes: usize,
    access: *const Access,
    count: usize,
) -> Status {
    // SAFETY: the caller's arguments, the range or a part of it.
    let call = |at, bytes| unsafe { real(at, bytes, access, count) };
    let Some(agent) = agent().filter(|_| !access.is_null() && count > 0) else {
        return call(at, bytes);
    };
    // SAFETY: the caller's array of that many descriptors.
    let given = unsafe { core::slice::from_raw_parts(access, count) };
    agent
        .set_access(at, bytes as u64, given, |at, part| {
            call(at, part as usize).ok()
        })
        .into()
}

unsafe fn get_access(
    real: cuMemGetAccess::Function,
    rights: *mut c_ulonglong,
    location: *const Location,
    at: CUdeviceptr,
) -> Status {
    let ours = agent()
        .filter(|_| !rights.is_null() && !location.is_null())
        // SAFETY: the caller's pointer, not null.
        .and_then(|agent| agent.get_access(unsafe { *location }, at));
    match ours {
        // SAFETY: the caller's pointer, not null.
        Some(found) => found.map(|found| unsafe { *rights = found }).into(),
        // SAFETY: the caller's arguments.
        None => unsafe { real(rights, location, at) },
    }
}

unsafe fn reserve(
    real: cuMemAddressReserve::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    align: usize,
    wanted: CUdeviceptr,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(found, bytes, align, wanted, flags) };
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: null, or what the driver filled.
        && let Some(&found) = unsafe { found.as_ref() }
    {
        agent.addresses_reserved(found, bytes as u64);
    }
    status
}

unsafe fn free(real: cuMemAddressFree::Function, at: CUdeviceptr, bytes: usize) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(at, bytes) };
    match agent() {
        Some(agent) => agent
            .free_addresses(at, bytes as u64, || call().ok())
            .into(),
        None => call(),
    }
}

unsafe fn retain(
    real: cuMemRetainAllocationHandle::Function,
    handle: *mut c_ulonglong,
    at: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(handle, at) };
    let Some(agent) = agent().filter(|_| !handle.is_null()) else {
        return call();
    };
    let retained = agent.retain_physical(at.addr() as u64, || {
        // SAFETY: the driver filled the caller's pointer.
        call().ok().map(|()| unsafe { *handle })
    });
    // SAFETY: the caller's pointer, not null.
    retained.map(|found| unsafe { *handle = found }).into()
}

unsafe fn properties(
    real: cuMemGetAllocationPropertiesFromHandle::Function,
    prop: *mut AllocationProp,
    handle: c_ulonglong,
) -> Status {
    match agent().and_then(|agent| agent.physical_prop(handle)) {
        // The driver must not see a handle that is none of its own.
        Some(_) if prop.is_null() => Status::INVALID_VALUE,
        // SAFETY: the caller's pointer, not null.
        Some(found) => found.map(|found| unsafe { *prop = found }).into(),
        // SAFETY: the caller's arguments.
        None => unsafe { real(prop, handle) },
    }
}

unsafe fn export(
    real: cuMemExportToShareableHandle::Function,
    shared: *mut c_void,
    handle: c_ulonglong,
    kind: c_int,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments, with its handle or the driver's for it.
    let call = |handle| unsafe { real(shared, handle, kind, flags) };
    let ours = agent().and_then(|agent| {
        if shared.is_null() {
            return agent
                .physical_prop(handle)
                .map(|_| Err(Status::INVALID_VALUE));
        }
        let kind = kind.cast_unsigned();
        agent.export_physical(handle, kind, flags, |handle| call(handle).ok())
    });
    match ours {
        Some(result) => result.into(),
        None => call(handle),
    }
}
