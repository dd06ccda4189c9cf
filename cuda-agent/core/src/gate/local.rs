//! The thread-local that every hooked call reads: this thread, as the gate knows it.
//!
//! `thread_local!` in a shared library asks the loader for the variable's address by a call each
//! time (the general-dynamic model, which stable Rust cannot change). A preloaded library's
//! thread-locals have a fixed place, as the C library's own, so on x86-64 this one is declared and
//! read in assembly by the initial-exec model: two loads. Loaded late by dlopen, the eight bytes
//! come out of the loader's reserve for that.

use super::thread::Thread;

/// This thread, once it is known.
#[inline]
pub(super) fn get() -> Option<&'static Thread> {
    // SAFETY: null, or what `set` was given.
    unsafe { raw::get().as_ref() }
}

/// Makes this thread known, or forgotten.
pub(super) fn set(thread: Option<&'static Thread>) {
    raw::set(thread.map_or(std::ptr::null(), std::ptr::from_ref));
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod raw {
    use std::arch::{asm, global_asm};

    use super::Thread;

    global_asm!(
        ".pushsection .tbss.rtswap_gate_thread,\"awT\",@nobits",
        ".p2align 3",
        ".globl rtswap_gate_thread",
        ".hidden rtswap_gate_thread",
        ".type rtswap_gate_thread,@object",
        ".size rtswap_gate_thread,8",
        "rtswap_gate_thread:",
        ".zero 8",
        ".popsection",
    );

    #[inline]
    pub(super) fn get() -> *const Thread {
        let thread;
        // SAFETY: reads eight bytes at a fixed distance from the thread pointer, ours alone.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + rtswap_gate_thread@GOTTPOFF]",
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) thread,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        thread
    }

    pub(super) fn set(thread: *const Thread) {
        // SAFETY: writes the same eight bytes.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + rtswap_gate_thread@GOTTPOFF]",
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) thread,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod raw {
    use std::cell::Cell;

    use super::Thread;

    thread_local! {
        static THREAD: Cell<*const Thread> = const { Cell::new(std::ptr::null()) };
    }

    #[inline]
    pub(super) fn get() -> *const Thread {
        THREAD.get()
    }

    pub(super) fn set(thread: *const Thread) {
        THREAD.set(thread);
    }
}
