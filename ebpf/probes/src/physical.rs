//! Physical memory: created, imported, mapped, given back when neither a handle nor a mapping holds it.

use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{Kind, Lost, Mapping, NO_DEVICE, Physical, Share};

use crate::account::change;
use crate::context::Place;
use crate::frame::{Entry, Frame};
use crate::maps::{MAPPINGS, PHYSICAL, add, count, lose};
use crate::process::{Caller, now};
use crate::share::{give, put};
use crate::user::{argument, read, succeeded};

/// The beginning of CUmemAllocationProp.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    kind: u32,
    handle_types: u32,
    location: u32,
    id: u32,
}

/// CU_MEM_LOCATION_TYPE_DEVICE.
const DEVICE: u32 = 1;
/// CU_MEM_LOCATION_TYPE_HOST; that of its nodes is behind it.
const HOST: u32 = 2;
/// CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
const HOST_NUMA_CURRENT: u32 = 4;
/// Mappings that one cuMemUnmap is followed through: the kernel's verifier goes through each.
const MOST_MAPPINGS: u32 = 48;

/// kept: where the handle goes, the properties.
#[uprobe]
fn enter_create(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        let kept = [argument(&ctx, 0), argument(&ctx, 2), 0, 0, 0];
        entry.keep(argument(&ctx, 1), false, kept);
    }
    0
}

/// As a creation of nothing: the bytes are its maker's.
#[uprobe]
fn enter_import(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        entry.keep(0, false, [argument(&ctx, 0), 0, 0, 0, 0]);
    }
    0
}

#[uretprobe]
fn leave_create(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    let Some(caller) = Caller::find(frame.bytes) else {
        return 0;
    };
    if !succeeded(&ctx) {
        caller.failed();
        return 0;
    }
    let [found, properties, ..] = frame.kept;
    let Some(handle) = read::<u64>(found) else {
        caller.unseen(frame.bytes);
        return 0;
    };
    let (mut bytes, mut device) = (frame.bytes, NO_DEVICE);
    if properties != 0
        && let Some(asked) = read::<Properties>(properties)
    {
        match asked.location {
            DEVICE => device = asked.id,
            HOST..=HOST_NUMA_CURRENT => bytes = 0,
            // Some part of a GPU.
            _ => {}
        }
    }
    let key = caller.object(handle);
    // SAFETY: a copy is taken, and holds good only if the entry was still there to be removed.
    let gone = unsafe { PHYSICAL.get(key) }.copied();
    if let Some(gone) = gone
        && PHYSICAL.remove(key).is_ok()
    {
        give(&caller, Share::Physical);
        // The driver gave the handle anew: what it named is gone, though we did not see it go.
        give_back(&caller, handle, &gone);
    }
    let physical = Physical {
        bytes,
        since: now(),
        holds: 1,
        device,
        zero: 0,
    };
    if !charge(&caller, handle, &physical) {
        caller.unseen(bytes);
    } else if !put(&caller, Share::Physical, &PHYSICAL, key, physical, 0) {
        caller.unfreed(bytes);
    }
    0
}

#[inline(always)]
fn charge(caller: &Caller, handle: u64, physical: &Physical) -> bool {
    let bytes = physical.bytes.cast_signed();
    bytes == 0
        || change(
            caller,
            &Place::on(physical.device),
            Kind::Physical as u32,
            handle,
            bytes,
        )
}

#[inline(always)]
fn give_back(caller: &Caller, handle: u64, physical: &Physical) {
    let bytes = physical.bytes.wrapping_neg().cast_signed();
    if bytes != 0 {
        change(
            caller,
            &Place::on(physical.device),
            Kind::Physical as u32,
            handle,
            bytes,
        );
    }
}

/// Lets one hold go. The last one's is taken out of the map, and returned.
#[inline(always)]
fn let_go(caller: &Caller, handle: u64, since: u64) -> LetGo {
    let key = caller.object(handle);
    let Some(found) = PHYSICAL.get_ptr_mut(key) else {
        return LetGo::Unknown;
    };
    // SAFETY: the map's value.
    let mut physical = unsafe { *found };
    if since != 0 && physical.since != since {
        // A later one of the same handle; the mapping's own was accounted for when that was created.
        return LetGo::Held;
    }
    // SAFETY: the map's value.
    if unsafe { add((&raw mut (*found).holds).cast(), -1) } > 1 {
        return LetGo::Held;
    }
    physical.holds = 1;
    match PHYSICAL.remove(key) {
        Ok(()) => {
            give(caller, Share::Physical);
            LetGo::Last(physical)
        }
        Err(_) => LetGo::Held,
    }
}

enum LetGo {
    Unknown,
    Held,
    Last(Physical),
}

/// What became of a handle at the entry of its release.
mod hold {
    pub const UNKNOWN: u64 = 0;
    pub const HELD: u64 = 1;
    pub const LAST: u64 = 2;
}

/// kept: the handle, what became of it, its GPU, when it was created.
#[uprobe]
fn enter_release(ctx: ProbeContext) -> u32 {
    let Some(entry) = Entry::outermost(&ctx) else {
        return 0;
    };
    let handle = argument(&ctx, 0);
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    match let_go(&caller, handle, 0) {
        LetGo::Unknown => entry.keep(0, true, [handle, hold::UNKNOWN, 0, 0, 0]),
        LetGo::Held => entry.keep(0, true, [handle, hold::HELD, 0, 0, 0]),
        LetGo::Last(gone) => {
            let kept = [handle, hold::LAST, u64::from(gone.device), gone.since, 0];
            entry.keep(gone.bytes, true, kept);
        }
    }
    0
}

#[uretprobe]
fn leave_release(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [handle, what, device, since, _] = frame.kept;
    let physical = Physical {
        bytes: frame.bytes,
        since,
        holds: 1,
        device: device as u32,
        zero: 0,
    };
    match (succeeded(&ctx), what) {
        (true, hold::LAST) => give_back(&caller, handle, &physical),
        (true, hold::UNKNOWN) => caller.freed_unknown(),
        (true, _) => {}
        (false, hold::LAST) => {
            caller.failed();
            let key = caller.object(handle);
            if !put(&caller, Share::Physical, &PHYSICAL, key, physical, 0) {
                caller.unfreed(physical.bytes);
            }
        }
        (false, hold::HELD) => {
            caller.failed();
            hold_more(&caller, handle);
        }
        (false, _) => caller.failed(),
    }
    0
}

/// One more handle or mapping; when the physical memory was created, if it is known.
#[inline(always)]
fn hold_more(caller: &Caller, handle: u64) -> Option<u64> {
    let found = PHYSICAL.get_ptr_mut(caller.object(handle))?;
    // SAFETY: the map's value.
    unsafe {
        count(&raw mut (*found).holds, 1);
        Some((*found).since)
    }
}

/// kept: where the handle goes.
#[uprobe]
fn enter_retain(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        entry.keep(0, false, [argument(&ctx, 0), 0, 0, 0, 0]);
    }
    0
}

#[uretprobe]
fn leave_retain(ctx: RetProbeContext) -> u32 {
    if let Some(frame) = Frame::close(&ctx)
        && succeeded(&ctx)
        && let Some(caller) = Caller::find(0)
        && let Some(handle) = read::<u64>(frame.kept[0])
    {
        hold_more(&caller, handle);
    }
    0
}

/// kept: address, length, handle.
#[uprobe]
fn enter_map(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        let kept = [
            argument(&ctx, 0),
            argument(&ctx, 1),
            argument(&ctx, 3),
            0,
            0,
        ];
        entry.keep(0, false, kept);
    }
    0
}

#[uretprobe]
fn leave_map(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [at, bytes, handle, ..] = frame.kept;
    let Some(since) = hold_more(&caller, handle) else {
        return 0;
    };
    let mapping = Mapping {
        bytes,
        handle,
        since,
    };
    let key = caller.object(at);
    if !put(&caller, Share::Mappings, &MAPPINGS, key, mapping, 0) {
        // Its unmapping will not be recognised, so the memory will seem held for ever.
        // SAFETY: a copy is taken.
        let held = unsafe { PHYSICAL.get(caller.object(handle)) }.copied();
        caller.unfreed(held.map_or(bytes, |physical| physical.bytes));
    }
    0
}

/// kept: address, length.
#[uprobe]
fn enter_unmap(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        let kept = [argument(&ctx, 0), argument(&ctx, 1), 0, 0, 0];
        entry.keep(0, true, kept);
    }
    0
}

/// At the return: the addresses are still the program's, so nothing else can lie there yet.
#[uretprobe]
fn leave_unmap(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [mut at, bytes, ..] = frame.kept;
    let end = at.wrapping_add(bytes);
    for _ in 0..MOST_MAPPINGS {
        if at >= end {
            return 0;
        }
        let key = caller.object(at);
        // SAFETY: a copy is taken, and holds good only if the entry was still there to be removed.
        let Some(mapping) = (unsafe { MAPPINGS.get(key) }).copied() else {
            // Mapped before the probes were attached: how far it reaches is not known.
            lose(Lost::Unpaired, 1);
            return 0;
        };
        if MAPPINGS.remove(key).is_ok() {
            give(&caller, Share::Mappings);
            if let LetGo::Last(gone) = let_go(&caller, mapping.handle, mapping.since) {
                give_back(&caller, mapping.handle, &gone);
            }
        }
        at = at.wrapping_add(mapping.bytes.max(1));
    }
    // What is left of so long a range stays counted.
    caller.unfreed(end.wrapping_sub(at));
    0
}
