//! Memory pools and GPUs: which GPU a pool is on, and which GPU the process means by a number.

use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{HOST, NO_DEVICE};

use crate::frame::{Entry, Frame};
use crate::maps::{DEVICES, POOLS};
use crate::process::Caller;
use crate::share::name;
use crate::user::{argument, read, succeeded};

/// CUmemLocation.
#[derive(Clone, Copy)]
#[repr(C)]
struct Location {
    kind: u32,
    id: u32,
}

/// Where a CUmemPoolProps has it, in bytes.
const LOCATION: u64 = 8;
/// CU_MEM_LOCATION_TYPE_DEVICE.
const DEVICE: u32 = 1;
/// CU_MEM_LOCATION_TYPE_HOST and CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; that of other nodes is between them.
const HOSTS: core::ops::RangeInclusive<u32> = 2..=4;

/// kept: where the pool goes, its GPU, its location where that is not the argument.
#[inline(always)]
fn enter(ctx: &ProbeContext, device: u64, location: u64) -> u32 {
    if let Some(entry) = Entry::outermost(ctx) {
        let kept = [argument(ctx, 0), device, location, 0, 0];
        entry.keep(0, false, kept);
    }
    0
}

#[uprobe]
fn enter_pool(ctx: ProbeContext) -> u32 {
    let location = argument(&ctx, 1).wrapping_add(LOCATION);
    enter(&ctx, u64::from(NO_DEVICE), location)
}

#[uprobe]
fn enter_pool_at(ctx: ProbeContext) -> u32 {
    enter(&ctx, u64::from(NO_DEVICE), argument(&ctx, 1))
}

#[uprobe]
fn enter_pool_of(ctx: ProbeContext) -> u32 {
    enter(&ctx, argument(&ctx, 1), 0)
}

#[uretprobe]
fn leave_pool(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let [found, device, location, ..] = frame.kept;
    let (Some(pool), Some(caller)) = (read::<u64>(found), Caller::find(0)) else {
        return 0;
    };
    let mut device = device as u32;
    if location != 0
        && let Some(asked) = read::<Location>(location)
    {
        if asked.kind == DEVICE {
            device = asked.id;
        } else if HOSTS.contains(&asked.kind) {
            device = HOST;
        }
    }
    name(&caller, &POOLS, caller.object(pool), device, 0);
    0
}

/// kept: where the UUID goes, the GPU.
#[uprobe]
fn enter_uuid(ctx: ProbeContext) -> u32 {
    if let Some(entry) = Entry::outermost(&ctx) {
        entry.keep(0, false, [argument(&ctx, 0), argument(&ctx, 1), 0, 0, 0]);
    }
    0
}

#[uretprobe]
fn leave_uuid(ctx: RetProbeContext) -> u32 {
    if let Some(frame) = Frame::close(&ctx)
        && succeeded(&ctx)
        && let Some(caller) = Caller::find(0)
        && let Some(uuid) = read::<[u8; 16]>(frame.kept[0])
    {
        let device = u64::from(frame.kept[1] as u32);
        name(&caller, &DEVICES, caller.object(device), uuid, 0);
    }
    0
}
