//! Each owner's share of the maps: what one owner's processes fill, others cannot use.
//!
//! A process takes entries for itself in batches, so that most calls compare two of its own numbers. Its owner
//! takes no more than half of what the others leave.

use aya_ebpf::helpers::bpf_get_current_uid_gid;
use aya_ebpf::maps::HashMap;
use rtswap_probe_abi::maps::MOST_SUBORDINATES;
use rtswap_probe_abi::records::{Object, Process, SHARES, Share, Taken, batch};

use crate::maps::{OWNERS, SUBORDINATES, TAKEN, add_narrow, config};
use crate::process::{Caller, NEW_ONLY};

/// Adds an entry, or changes the one that is there. False where there is no room for it.
#[inline(always)]
pub fn put<K, V>(
    caller: &Caller,
    what: Share,
    map: &HashMap<K, V>,
    key: K,
    value: V,
    flags: u64,
) -> bool {
    if map.get_ptr(&key).is_some() {
        return map.insert(&key, &value, flags).is_ok();
    }
    if !take(caller, what) {
        return false;
    }
    let is_put = map.insert(&key, &value, flags).is_ok();
    if !is_put {
        give(caller, what);
    }
    is_put
}

/// As [`put`], of a context, a pool or a GPU. Without room for it the process counts as not followed.
#[inline(always)]
pub fn name<V>(caller: &Caller, map: &HashMap<Object, V>, key: Object, value: V, flags: u64) {
    let is_put = put(caller, Share::Names, map, key, value, flags);
    // It may have been there before, or another thread's.
    if !is_put && map.get_ptr(&key).is_none() {
        caller.unnamed();
    }
}

/// Counts an entry that the process adds. False where its owner's share is used up.
#[inline(always)]
pub fn take(caller: &Caller, what: Share) -> bool {
    let index = what as usize;
    // SAFETY: the map's value.
    let (used, taken) = unsafe {
        let used = (&raw mut (*caller.process).used).cast::<u32>().add(index);
        let taken = (&raw mut (*caller.process).taken).cast::<u32>().add(index);
        (used, taken)
    };
    // SAFETY: the map's value.
    let before = unsafe { add_narrow(used, 1) };
    // SAFETY: the map's value.
    if before < unsafe { taken.read_volatile() } {
        return true;
    }
    // SAFETY: the map's value.
    let owner = unsafe { (*caller.process).owner };
    let entries = batch(config().capacities[index]);
    if take_for_owner(owner, what, entries) {
        // SAFETY: the map's value.
        unsafe { add_narrow(taken, entries.cast_signed()) };
        return true;
    }
    give(caller, what);
    false
}

/// Counts an entry that the process has removed.
#[inline(always)]
pub fn give(caller: &Caller, what: Share) {
    give_to(caller.process, what);
}

/// As [`give`], of a process by its entry.
#[inline(always)]
pub fn give_to(process: *mut Process, what: Share) {
    // SAFETY: the map's value.
    unsafe {
        let used = (&raw mut (*process).used).cast::<u32>();
        add_narrow(used.add(what as usize), -1);
    }
}

/// Takes entries for an owner. False where it would have more than half of what the others leave.
#[inline(always)]
pub fn take_for_owner(owner: u32, what: Share, entries: u32) -> bool {
    const NONE: Taken = Taken {
        entries: [0; SHARES],
    };
    let mut own = OWNERS.get_ptr_mut(owner);
    if own.is_none() {
        let _ = OWNERS.insert(owner, NONE, NEW_ONLY);
        own = OWNERS.get_ptr_mut(owner);
    }
    let (Some(own), Some(all)) = (own, TAKEN.get_ptr_mut(0)) else {
        return false;
    };
    let index = what as usize;
    // SAFETY: the maps' values.
    unsafe {
        let own = (&raw mut (*own).entries).cast::<u32>().add(index);
        let all = (&raw mut (*all).entries).cast::<u32>().add(index);
        let (mine, taken) = (own.read_volatile(), all.read_volatile());
        let left = config().capacities[index].saturating_sub(taken.saturating_sub(mine));
        if mine.saturating_add(entries) > left / 2 {
            return false;
        }
        add_narrow(own, entries.cast_signed());
        add_narrow(all, entries.cast_signed());
    }
    true
}

/// The owner of the calling process.
#[inline(always)]
pub fn owner() -> u32 {
    let user = bpf_get_current_uid_gid() as u32;
    let (mut low, mut high) = (0, config().subordinates.min(MOST_SUBORDINATES));
    for _ in 0..=MOST_SUBORDINATES.ilog2() {
        if low >= high {
            return user;
        }
        let middle = (low + high) / 2;
        let Some(found) = SUBORDINATES.get(middle) else {
            return user;
        };
        if user < found.first {
            high = middle;
        } else if user > found.last {
            low = middle + 1;
        } else {
            return found.first;
        }
    }
    user
}
