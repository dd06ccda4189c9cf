//! One program for the entries of all functions, and one for their returns: a library then takes two links of
//! many places each (`uprobe_multi`, Linux 6.6), which end by two waits of the kernel instead of one for each
//! place. A place's cookie is the index of its own program, to which they pass on, and [`FOREIGN`].

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};

use rtswap_probe_abi::records::FOREIGN;

use crate::maps::PROGRAMS;
use crate::process::Caller;

#[uprobe]
fn enter_any(ctx: ProbeContext) -> u32 {
    // SAFETY: it is this program's context.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if cookie & FOREIGN != 0
        && let Some(caller) = Caller::find(0)
    {
        caller.mark_foreign();
    }
    pass_on(&ctx)
}

#[uretprobe]
fn leave_any(ctx: RetProbeContext) -> u32 {
    pass_on(&ctx)
}

#[inline(always)]
fn pass_on(ctx: &impl EbpfContext) -> u32 {
    // SAFETY: it is this program's context; one place has one cookie, and its program reads the same registers.
    unsafe {
        let program = bpf_get_attach_cookie(ctx.as_ptr());
        PROGRAMS.tail_call(ctx, program as u32);
    }
    // The loader put in all programs before it attached these two.
    0
}
