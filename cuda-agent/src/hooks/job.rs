//! rtswap.h: jobs that a program declares.

use std::panic::catch_unwind;

use rtswap_agent_core::agent::{Agent, agent};

/// Begins a job; returns once it may run. Nested begins count.
#[unsafe(no_mangle)]
pub(super) extern "C" fn rtswap_job_begin() {
    // A panic ends here: the job then runs as an undeclared one.
    let _ = catch_unwind(|| agent().map(Agent::job_begin));
}

/// Ends a job; returns once all its work is done.
#[unsafe(no_mangle)]
pub(super) extern "C" fn rtswap_job_end() {
    // A panic ends here: the swap thread then finds the job's end.
    let _ = catch_unwind(|| agent().map(Agent::job_end));
}
