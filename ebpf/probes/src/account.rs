//! Live bytes.

use rtswap_probe_abi::records::{
    Account, Bytes, KINDS, Kind, Lost, NO_DEVICE, News, Share, TELL_CALLS,
};

use crate::context::Place;
use crate::maps::{BYTES, NEWS, add, config, count, lose};
use crate::process::{Caller, NEW_ONLY, now};
use crate::share::put;

/// BPF_RB_NO_WAKEUP.
pub const QUIET: u64 = 1;
/// BPF_RB_FORCE_WAKEUP.
const WAKE: u64 = 2;

/// Adds to an account, negative for a free; news of it. `false` where there is no room for a new account.
#[inline(always)]
pub fn change(caller: &Caller, place: &Place, kind: u32, name: u64, bytes: i64) -> bool {
    let account = place.account(caller);
    let mut found = BYTES.get_ptr_mut(account);
    if found.is_none() {
        let _ = put(
            caller,
            Share::Accounts,
            &BYTES,
            account,
            Bytes::ZERO,
            NEW_ONLY,
        );
        found = BYTES.get_ptr_mut(account);
    }
    let Some(found) = found else {
        return false;
    };
    let index = kind as usize % KINDS;
    // SAFETY: inside the map's value. An entry is removed only when its process has ended.
    let before = unsafe { add((&raw mut (*found).live).cast::<i64>().add(index), bytes) };
    caller.called();
    tell(caller, place, kind, name, bytes, before.wrapping_add(bytes));
    true
}

#[inline(always)]
fn tell(caller: &Caller, place: &Place, kind: u32, name: u64, bytes: i64, live: i64) {
    let config = config();
    if config.flags & TELL_CALLS == 0 {
        return;
    }
    let Some(mut news) = NEWS.reserve::<News>(0) else {
        lose(Lost::News, 1);
        // SAFETY: the map's value.
        unsafe { count(&raw mut (*caller.process).lost_news, 1) };
        return;
    };
    news.write(News {
        at: now(),
        since: caller.since,
        name,
        bytes,
        live,
        context: place.context,
        process: caller.id(),
        thread: caller.thread_id(),
        device: place.device,
        kind,
    });
    let mark = |bytes: i64| bytes.cast_unsigned().checked_div(config.watermark_bytes);
    let passed = mark(live) != mark(live.wrapping_sub(bytes));
    news.submit(if passed { WAKE } else { QUIET });
}

/// Empties what dies with a context: all that has an address in it.
#[inline(always)]
pub fn end_context(caller: &Caller, context: u64, device: u32) {
    empty(caller, context, device);
    if device != NO_DEVICE {
        // What was allocated before its GPU was known.
        empty(caller, context, NO_DEVICE);
    }
}

#[inline(always)]
fn empty(caller: &Caller, context: u64, device: u32) {
    let account = Account {
        since: caller.since,
        context,
        process: caller.id(),
        device,
    };
    let Some(found) = BYTES.get_ptr_mut(account) else {
        return;
    };
    for kind in [Kind::Plain, Kind::Managed, Kind::Array] {
        // SAFETY: inside the map's value.
        unsafe {
            let live = (&raw mut (*found).live).cast::<i64>().add(kind as usize);
            let _ = add(live, live.read_volatile().wrapping_neg());
        }
    }
}
