//! Addresses that cuGetProcAddress gives: they may be others than the exported ones, and then the calls
//! through them pass by the probes. The reader compares, and attaches there as well.

use aya_ebpf::helpers::bpf_probe_read_user_str_bytes;
use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{Handed, Lost, SYMBOL_BYTES, TELL_HANDED};

use crate::account::QUIET;
use crate::frame::{Entry, Frame};
use crate::maps::{NEWS, config, count, lose};
use crate::process::Caller;
use crate::user::{argument, read, succeeded};

/// kept: the name, where the address goes, the version of CUDA.
#[uprobe]
fn enter_address(ctx: ProbeContext) -> u32 {
    if config().flags & TELL_HANDED != 0
        && let Some(entry) = Entry::outermost(&ctx)
    {
        let kept = [
            argument(&ctx, 0),
            argument(&ctx, 1),
            argument(&ctx, 2),
            0,
            0,
        ];
        entry.keep(0, false, kept);
    }
    0
}

#[uretprobe]
fn leave_address(ctx: RetProbeContext) -> u32 {
    if config().flags & TELL_HANDED == 0 {
        return 0;
    }
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    let [symbol, found, version, ..] = frame.kept;
    let (true, Some(address), Some(caller)) =
        (succeeded(&ctx), read::<u64>(found), Caller::find(0))
    else {
        return 0;
    };
    // The driver has read the name, so it is in memory.
    let mut name = [0_u8; SYMBOL_BYTES];
    // SAFETY: the helper checks the address and the length.
    if unsafe { bpf_probe_read_user_str_bytes(symbol as *const u8, &mut name) }.is_err()
        || address == 0
        || !is_ours(&name)
    {
        return 0;
    }
    let Some(mut record) = NEWS.reserve::<Handed>(0) else {
        lose(Lost::News, 1);
        // SAFETY: the map's value.
        unsafe { count(&raw mut (*caller.process).lost_news, 1) };
        return 0;
    };
    record.write(Handed {
        since: caller.since,
        address,
        process: caller.id(),
        version: version as u32,
        symbol: name,
    });
    record.submit(QUIET);
    0
}

/// Memory, array and context functions, by how their names begin; the rest is not probed.
#[inline(always)]
fn is_ours(name: &[u8; SYMBOL_BYTES]) -> bool {
    let begins = |with: &[u8; 5]| name[..5] == with[..];
    begins(b"cuMem") || begins(b"cuCtx") || begins(b"cuArr") || begins(b"cuMip") || begins(b"cuDev")
}
