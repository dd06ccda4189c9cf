//! The caller's registers and memory.

use core::ffi::c_void;

use aya_ebpf::helpers::{bpf_probe_read_user, generated};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};

/// An argument of the call.
#[inline(always)]
pub fn argument(ctx: &ProbeContext, number: usize) -> u64 {
    ctx.arg::<u64>(number).unwrap_or(0)
}

/// Whether the call succeeded: CUDA_SUCCESS is 0.
#[inline(always)]
pub fn succeeded(ctx: &RetProbeContext) -> bool {
    ctx.ret::<u32>() == 0
}

/// The caller's stack pointer at the call, its return address on top.
#[inline(always)]
pub fn stack_at_entry(ctx: &ProbeContext) -> u64 {
    // SAFETY: the kernel gives the program a valid register set.
    unsafe { (*ctx.regs).rsp }
}

/// As [`stack_at_entry`], of the call that returns: the return address has been taken off.
#[inline(always)]
pub fn stack_at_return(ctx: &RetProbeContext) -> u64 {
    // SAFETY: the kernel gives the program a valid register set.
    unsafe { (*ctx.regs).rsp }.wrapping_sub(8)
}

/// Reads the caller's memory; `None` where there is none. `T` is integers.
#[inline(always)]
pub fn read<T>(at: u64) -> Option<T> {
    // SAFETY: the helper checks the address; any bits are valid integers.
    unsafe { bpf_probe_read_user(at as *const T) }.ok()
}

/// Reads an integer of so many bytes, 8 at most.
#[inline(always)]
pub fn read_wide(at: u64, bytes: u32) -> Option<u64> {
    let mut number = 0_u64;
    // SAFETY: the helper checks the address and writes no more than the integer holds.
    let result = unsafe {
        generated::bpf_probe_read_user((&raw mut number).cast(), bytes, at as *const c_void)
    };
    (result == 0).then_some(number)
}
