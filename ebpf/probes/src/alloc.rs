//! Memory objects with an address: allocated, freed.

use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{Allocation, HOST, Kind, NO_DEVICE, Share};

use crate::account::change;
use crate::array;
use crate::context::Place;
use crate::frame::{Entry, Frame};
use crate::maps::{ALLOCATIONS, POOLS};
use crate::process::Caller;
use crate::share::{give, put};
use crate::user::{argument, read, read_wide, succeeded};

/// How the size of an allocation is known at its return.
mod size {
    /// From its arguments, at the entry.
    pub const GIVEN: u64 = 0;
    /// Rows of the pitch that the driver chose.
    pub const PITCH: u64 = 1;
    /// CUDA_ARRAY_DESCRIPTOR.
    pub const FLAT: u64 = 2;
    /// CUDA_ARRAY3D_DESCRIPTOR.
    pub const SOLID: u64 = 3;
    /// With one of these: addresses and sizes are of 32 bits, as in the first form of a function.
    pub const FIRST: u64 = 4;
}

/// Reads an address or a size, as wide as the function's form has it.
#[inline(always)]
fn read_number(at: u64, how: u64) -> Option<u64> {
    read_wide(at, if how & size::FIRST != 0 { 4 } else { 8 })
}

/// An argument of 32 bits: the upper half of its register is anything.
#[inline(always)]
fn narrow(ctx: &ProbeContext, number: usize) -> u64 {
    u64::from(argument(ctx, number) as u32)
}

/// kept: where the address goes, kind, how the size is known, where from, rows or levels or the pool.
#[inline(always)]
fn enter(ctx: &ProbeContext, kind: Kind, bytes: u64, how: u64, from: u64, more: u64) -> u32 {
    if let Some(entry) = Entry::outermost(ctx) {
        let found = argument(ctx, 0);
        entry.keep(bytes, false, [found, kind as u64, how, from, more]);
    }
    0
}

#[uprobe]
fn enter_plain(ctx: ProbeContext) -> u32 {
    enter(&ctx, Kind::Plain, argument(&ctx, 1), size::GIVEN, 0, 0)
}

#[uprobe]
fn enter_plain_v1(ctx: ProbeContext) -> u32 {
    let how = size::GIVEN | size::FIRST;
    enter(&ctx, Kind::Plain, narrow(&ctx, 1), how, 0, 0)
}

#[uprobe]
fn enter_managed(ctx: ProbeContext) -> u32 {
    enter(&ctx, Kind::Managed, argument(&ctx, 1), size::GIVEN, 0, 0)
}

#[uprobe]
fn enter_ordered(ctx: ProbeContext) -> u32 {
    enter(&ctx, Kind::Ordered, argument(&ctx, 1), size::GIVEN, 0, 0)
}

#[uprobe]
fn enter_from_pool(ctx: ProbeContext) -> u32 {
    let (bytes, pool) = (argument(&ctx, 1), argument(&ctx, 2));
    enter(&ctx, Kind::Ordered, bytes, size::GIVEN, 0, pool)
}

#[uprobe]
fn enter_pitched(ctx: ProbeContext) -> u32 {
    let (pitch, width, rows) = (argument(&ctx, 1), argument(&ctx, 2), argument(&ctx, 3));
    let least = width.wrapping_mul(rows);
    enter(&ctx, Kind::Plain, least, size::PITCH, pitch, rows)
}

#[uprobe]
fn enter_pitched_v1(ctx: ProbeContext) -> u32 {
    let (pitch, width, rows) = (argument(&ctx, 1), narrow(&ctx, 2), narrow(&ctx, 3));
    let how = size::PITCH | size::FIRST;
    enter(
        &ctx,
        Kind::Plain,
        width.wrapping_mul(rows),
        how,
        pitch,
        rows,
    )
}

#[uprobe]
fn enter_array_v1(ctx: ProbeContext) -> u32 {
    let how = size::FLAT | size::FIRST;
    enter(&ctx, Kind::Array, 0, how, argument(&ctx, 1), 1)
}

#[uprobe]
fn enter_array_3d_v1(ctx: ProbeContext) -> u32 {
    let how = size::SOLID | size::FIRST;
    enter(&ctx, Kind::Array, 0, how, argument(&ctx, 1), 1)
}

#[uprobe]
fn enter_array(ctx: ProbeContext) -> u32 {
    enter(&ctx, Kind::Array, 0, size::FLAT, argument(&ctx, 1), 1)
}

#[uprobe]
fn enter_array_3d(ctx: ProbeContext) -> u32 {
    enter(&ctx, Kind::Array, 0, size::SOLID, argument(&ctx, 1), 1)
}

#[uprobe]
fn enter_mipmapped(ctx: ProbeContext) -> u32 {
    let (shape, levels) = (argument(&ctx, 1), argument(&ctx, 2));
    enter(&ctx, Kind::Array, 0, size::SOLID, shape, levels)
}

#[uretprobe]
fn leave_alloc(ctx: RetProbeContext) -> u32 {
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
    let [found, kind, how, from, more] = frame.kept;
    let bytes = match how & !size::FIRST {
        size::PITCH => read_number(from, how).map(|pitch| pitch.wrapping_mul(more)),
        _ => Some(frame.bytes),
    };
    match (read_number(found, how), bytes) {
        (Some(name), Some(bytes)) => allocated(&caller, kind as u32, name, bytes, more),
        _ => caller.unseen(frame.bytes),
    }
    0
}

/// Of arrays alone: the verifier goes through much to know their size.
#[uretprobe]
fn leave_array(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    if !succeeded(&ctx) {
        caller.failed();
        return 0;
    }
    let [found, kind, how, from, levels] = frame.kept;
    let first = how & size::FIRST != 0;
    let bytes = match how & !size::FIRST {
        size::FLAT => array::flat_bytes(from, first),
        _ => array::solid_bytes(from, first, levels),
    };
    match (read::<u64>(found), bytes) {
        (Some(name), Some(bytes)) => allocated(&caller, kind as u32, name, bytes, 0),
        _ => caller.unseen(0),
    }
    0
}

#[inline(always)]
fn allocated(caller: &Caller, kind: u32, name: u64, bytes: u64, pool: u64) {
    let mut bytes = bytes;
    let mut place = Place::of(caller);
    if kind == Kind::Ordered as u32 {
        // It is its pool's, whatever becomes of the context.
        place.context = 0;
        place.context_since = 0;
        if pool != 0 {
            // SAFETY: a copy is taken; pools are made and destroyed by this process alone.
            place.device = unsafe { POOLS.get(caller.object(pool)) }
                .copied()
                .unwrap_or(NO_DEVICE);
            if place.device == HOST {
                // Known, so that its free is no stranger's.
                bytes = 0;
            }
        }
    }
    let key = caller.object(name);
    // The driver gave the address anew: what was there is gone, though its free was not seen.
    if let Some(gone) = take(caller, name) {
        free(caller, name, &gone);
    }
    let object = Allocation {
        bytes,
        context: place.context,
        context_since: place.context_since,
        device: place.device,
        kind,
    };
    let counted = bytes == 0 || change(caller, &place, kind, name, bytes.cast_signed());
    if !counted {
        caller.unseen(bytes);
    } else if !put(caller, Share::Allocations, &ALLOCATIONS, key, object, 0) {
        caller.unfreed(bytes);
    }
}

/// Takes the object at an address out of the map; of two threads that free it at once, one has it.
#[inline(always)]
fn take(caller: &Caller, name: u64) -> Option<Allocation> {
    let key = caller.object(name);
    // SAFETY: a copy is taken, and holds good only if the entry was still there to be removed.
    let object = unsafe { ALLOCATIONS.get(key) }.copied()?;
    ALLOCATIONS.remove(key).ok()?;
    give(caller, Share::Allocations);
    Some(object)
}

#[inline(always)]
fn free(caller: &Caller, name: u64, object: &Allocation) {
    let place = Place {
        context: object.context,
        context_since: object.context_since,
        device: object.device,
    };
    if object.bytes != 0 && place.is_live(caller) {
        change(
            caller,
            &place,
            object.kind,
            name,
            object.bytes.wrapping_neg().cast_signed(),
        );
    }
}

#[uprobe]
fn enter_free(ctx: ProbeContext) -> u32 {
    freeing(&ctx, argument(&ctx, 0))
}

#[uprobe]
fn enter_free_v1(ctx: ProbeContext) -> u32 {
    freeing(&ctx, narrow(&ctx, 0))
}

/// kept: the address, then the object.
#[inline(always)]
fn freeing(ctx: &ProbeContext, name: u64) -> u32 {
    let Some(entry) = Entry::outermost(ctx) else {
        return 0;
    };
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    match take(&caller, name) {
        Some(object) => {
            let what = u64::from(object.kind) << 32 | u64::from(object.device);
            let kept = [name, object.context, object.context_since, what, 1];
            entry.keep(object.bytes, true, kept);
        }
        None => entry.keep(0, true, [name, 0, 0, 0, 0]),
    }
    0
}

#[uretprobe]
fn leave_free(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [name, context, context_since, what, known] = frame.kept;
    let object = Allocation {
        bytes: frame.bytes,
        context,
        context_since,
        device: what as u32,
        kind: (what >> 32) as u32,
    };
    match (succeeded(&ctx), known != 0) {
        (true, true) => free(&caller, name, &object),
        // Freeing nothing is allowed.
        (true, false) if name == 0 => {}
        (true, false) => caller.freed_unknown(),
        (false, known) => {
            caller.failed();
            let key = caller.object(name);
            if known && !put(&caller, Share::Allocations, &ALLOCATIONS, key, object, 0) {
                caller.unfreed(object.bytes);
            }
        }
    }
    0
}
