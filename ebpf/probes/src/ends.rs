//! The ends of processes: exit, and exec, which ends what the process held.

use core::ffi::c_void;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::tracepoint;
use aya_ebpf::programs::TracePointContext;
use aya_log_ebpf::warn;
use rtswap_probe_abi::records::{End, Exit, Lost};

use crate::maps::{EXITS, PROCESSES, config, lose};
use crate::process::now;
use crate::{context, frame};

/// For each thread that exits.
#[tracepoint]
fn process_exits(ctx: TracePointContext) -> u32 {
    let thread = bpf_get_current_pid_tgid();
    let id = (thread >> 32) as u32;
    let Some(process) = PROCESSES.get_ptr_mut(id) else {
        return 0;
    };
    frame::thread_ends(process, thread);
    context::thread_ends(process, thread);
    match config().group_dead_at as usize {
        0 if id == thread as u32 => ended(&ctx, id, End::FirstThread),
        0 => {}
        at => {
            // SAFETY: the helper checks the address; any bits are a valid byte.
            match unsafe { ctx.read_at::<u8>(at) } {
                Ok(0) => {}
                Ok(_) => ended(&ctx, id, End::Exited),
                Err(_) => lose(Lost::Unpaired, 1),
            }
        }
    }
    0
}

/// After the other threads are gone.
#[tracepoint]
fn process_executes(ctx: TracePointContext) -> u32 {
    let thread = bpf_get_current_pid_tgid();
    let id = (thread >> 32) as u32;
    if let Some(process) = PROCESSES.get_ptr_mut(id) {
        frame::thread_ends(process, thread);
        context::thread_ends(process, thread);
    }
    ended(&ctx, id, End::Executed);
    0
}

#[inline(always)]
fn ended(ctx: &TracePointContext, id: u32, end: End) {
    // SAFETY: a copy is taken.
    let Some(process) = (unsafe { PROCESSES.get(id) }) else {
        return;
    };
    let exit = Exit {
        at: now(),
        since: process.since,
        process: id,
        id_here: process.id_here,
        end: end as u32,
        zero: 0,
    };
    if process.unseen_calls > 0 {
        let (calls, bytes) = (process.unseen_calls, process.unseen_bytes);
        warn_unseen(ctx.as_ptr(), id, calls, bytes);
    }
    if !matches!(end, End::FirstThread) {
        let _ = PROCESSES.remove(id);
    }
    let Some(mut record) = EXITS.reserve::<Exit>(0) else {
        lose(Lost::Exits, 1);
        return;
    };
    record.write(exit);
    record.submit(0);
}

/// One copy for all programs. Its name is kept as it is: in an object that is to be the same wherever it is
/// built, none may be one that the compiler mangles, with a hash of the folder.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn warn_unseen(ctx: *mut c_void, id: u32, calls: u64, bytes: u64) {
    warn!(
        &TracePointContext::new(ctx),
        "process {}: {} calls, {} bytes not followed", id, calls, bytes
    );
}
