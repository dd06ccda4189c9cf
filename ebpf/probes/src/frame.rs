//! Pairs a call's entry with its return.
//!
//! A thread has one frame: that of its outermost watched call. What the driver calls inside it (pitched
//! allocation → plain one) lies deeper on the stack and is not counted again. The frame and the return belong
//! together if the stack pointer is the same, so a return that was never watched cannot be taken for another.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{Lost, Process, Share};

use crate::maps::{IN_FLIGHT, PROCESSES, lose};
use crate::process::Caller;
use crate::share::{give_to, put};
use crate::user::{stack_at_entry, stack_at_return};

/// An outermost call that has not returned.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frame {
    /// The stack pointer at its entry.
    pub stack: u64,
    /// What is uncertain if it never returns: bytes asked for, or being freed.
    pub bytes: u64,
    /// Whether those are being freed: 1, else 0.
    pub freeing: u64,
    /// What the function needs at its return.
    pub kept: [u64; 5],
}

/// The entry of an outermost call; what it keeps goes into [`Entry::keep`].
pub struct Entry {
    thread: u64,
    stack: u64,
}

impl Entry {
    /// `None` inside another watched call.
    #[inline(always)]
    pub fn outermost(ctx: &ProbeContext) -> Option<Self> {
        let thread = bpf_get_current_pid_tgid();
        let stack = stack_at_entry(ctx);
        // SAFETY: only this thread changes its entry.
        if let Some(open) = unsafe { IN_FLIGHT.get(thread) } {
            if open.stack > stack {
                return None;
            }
            // Its return never came.
            let open = *open;
            lose(Lost::Unpaired, 1);
            if let Some(caller) = Caller::find(open.bytes) {
                open.abandon(&caller);
            }
        }
        Some(Self { thread, stack })
    }

    /// Opens the frame. Without room for it the call cannot be followed, and is counted as such.
    #[inline(always)]
    pub fn keep(&self, bytes: u64, freeing: bool, kept: [u64; 5]) {
        let frame = Frame {
            stack: self.stack,
            bytes,
            freeing: u64::from(freeing),
            kept,
        };
        let Some(caller) = Caller::find(bytes) else {
            return;
        };
        if !put(&caller, Share::Calls, &IN_FLIGHT, self.thread, frame, 0) {
            frame.abandon(&caller);
        }
    }
}

impl Frame {
    /// The frame of the call that returns; `None` for one inside it.
    #[inline(always)]
    pub fn close(ctx: &RetProbeContext) -> Option<Self> {
        let thread = bpf_get_current_pid_tgid();
        // SAFETY: only this thread changes its entry.
        let Some(open) = (unsafe { IN_FLIGHT.get(thread) }) else {
            lose(Lost::Unpaired, 1);
            return None;
        };
        if open.stack != stack_at_return(ctx) {
            return None;
        }
        let frame = *open;
        if IN_FLIGHT.remove(thread).is_ok()
            && let Some(process) = PROCESSES.get_ptr_mut((thread >> 32) as u32)
        {
            give_to(process, Share::Calls);
        }
        Some(frame)
    }

    /// Counts a call whose end is not known.
    #[inline(always)]
    fn abandon(&self, caller: &Caller) {
        if self.freeing == 0 {
            caller.unseen(self.bytes);
        } else {
            caller.unfreed(self.bytes);
        }
    }
}

/// The thread ends: its call will not return.
#[inline(always)]
pub fn thread_ends(process: *mut Process, thread: u64) {
    if IN_FLIGHT.remove(thread).is_ok() {
        give_to(process, Share::Calls);
    }
}
