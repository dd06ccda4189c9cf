//! rtswap.h: what a program declares.

use core::ffi::{CStr, c_char, c_void};
use std::panic::{UnwindSafe, catch_unwind};

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::gate::is_inside;

/// Begins a job; returns once it may run. Nested begins count. In a callback inside the agent (see
/// `gate`) nothing can be waited for: no job begins or ends there.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_job_begin() {
    // A panic ends within: the job then runs as an undeclared one.
    declare(outside(|agent: &Agent| agent.job_begin(None)));
}

/// The same, for a job of this name: only what records the process makes use of it.
///
/// # Safety
/// `name` is null or a text that ends with a zero, as rtswap.h says.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn rtswap_job_begin_named(name: *const c_char) {
    declare(outside(|agent: &Agent| {
        // SAFETY: by the caller's promise.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
        agent.job_begin(name.map(CStr::to_string_lossy).as_deref());
    }));
}

/// Ends a job; returns once all its work is done.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_job_end() {
    // A panic ends within: the swap thread then finds the job's end.
    declare(outside(Agent::job_end));
}

/// The program's kernels do not write `bytes` from `at` on until they are freed.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_hint_read_only(at: *const c_void, bytes: usize) {
    // A panic ends within: without its hint the memory is copied each time.
    declare(outside(|agent: &Agent| {
        agent.hint_read_only(at.addr() as u64, bytes as u64);
    }));
}

/// Kernels may write `bytes` from `at` on again.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_hint_writable(at: *const c_void, bytes: usize) {
    // The core's part of it cannot panic, so that no hint stands that was taken back.
    declare(|agent| agent.forget_hints(at.addr() as u64, bytes as u64));
}

/// Does what wants the agent's locks, unless this thread may hold them.
fn outside(call: impl FnOnce(&Agent) + UnwindSafe) -> impl FnOnce(&Agent) + UnwindSafe {
    |agent| {
        if !is_inside() {
            call(agent);
        }
    }
}

fn declare(call: impl FnOnce(&Agent) + UnwindSafe) {
    let cancellation = put_off();
    let _ = catch_unwind(|| agent().map(call));
    cancellation.restore();
}
