//! Programs for the kernel's BPF machine: uprobes on the CUDA driver's memory and context functions, and
//! tracepoints at the ends of processes. They keep each process's bytes, exactly, in maps that
//! `rtswap-probe-abi` describes.
//!
//! - [`frame`]: pairs a call's entry with its return; only the outermost call of a thread counts;
//! - [`process`]: who calls, and what of its calls could not be followed;
//! - [`share`]: how many entries of the maps each owner may fill;
//! - [`account`]: live bytes, and news of them;
//! - [`alloc`], [`array`], [`physical`], [`context`], [`pool`], [`handed`]: the functions;
//! - [`dispatch`]: from one program for all functions to each function's own;
//! - [`ends`]: exit and exec.
//!
//! What a call names is taken out at its entry (free, release) and put in at its return (allocation): while
//! it is out, the driver may give the same name to another thread, and the two are not mixed up.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "atomic additions have no stable form on this target"
)]

mod account;
mod alloc;
mod array;
mod context;
mod dispatch;
mod ends;
mod frame;
mod handed;
mod maps;
mod physical;
mod pool;
mod process;
mod share;
mod user;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// What the kernel asks of programs that use its helpers for tracing.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
