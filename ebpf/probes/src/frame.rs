//! Pairs a call's entry with its return.
//!
//! A thread has one frame: that of its outermost watched call. What the driver calls inside it (pitched
//! allocation → plain one) lies deeper on the stack and is not counted again. The frame and the return belong
//! together if the stack pointer is the same, so a return that was never watched cannot be taken for another.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::Lost;

use crate::maps::{IN_FLIGHT, lose};
use crate::process::Caller;
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
            open.abandon();
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
        if IN_FLIGHT.insert(self.thread, frame, 0).is_err() {
            frame.abandon();
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
        let _ = IN_FLIGHT.remove(thread);
        Some(frame)
    }

    /// Counts a call whose end is not known.
    #[inline(always)]
    pub fn abandon(&self) {
        let Some(caller) = Caller::find(self.bytes) else {
            return;
        };
        if self.freeing == 0 {
            caller.unseen(self.bytes);
        } else {
            caller.unfreed(self.bytes);
        }
    }
}

/// The thread ends: its call will not return.
#[inline(always)]
pub fn thread_ends(thread: u64) {
    let _ = IN_FLIGHT.remove(thread);
}
