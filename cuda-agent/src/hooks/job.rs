//! rtswap.h: jobs that a program declares.

use std::panic::catch_unwind;

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cancel::put_off;

/// Begins a job; returns once it may run. Nested begins count.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_job_begin() {
    // A panic ends within: the job then runs as an undeclared one.
    declare(Agent::job_begin);
}

/// Ends a job; returns once all its work is done.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn rtswap_job_end() {
    // A panic ends within: the swap thread then finds the job's end.
    declare(Agent::job_end);
}

fn declare(call: fn(&Agent)) {
    let cancellation = put_off();
    let _ = catch_unwind(|| agent().map(call));
    cancellation.restore();
}
