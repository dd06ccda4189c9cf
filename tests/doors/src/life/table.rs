//! The probes of this area.

use super::held::held;
use crate::check::{Outcome, Own};
use crate::table::Probe;

const fn caught(
    file: &'static str,
    argument: &'static str,
    doors: &'static str,
    check: Own,
) -> Probe {
    Probe::own(file, argument, doors, check, Outcome::Caught)
}

pub(crate) const PROBES: &[Probe] = &[
    Probe::same("life_threads", "early", "threads made before cuInit"),
    Probe::same(
        "life_threads",
        "thousands",
        "2000 threads of one launch each",
    ),
    Probe::same(
        "life_threads",
        "without_locals",
        "calls after the thread's locals are gone",
    ),
    Probe::same("life_threads", "tiny_stack", "a stack of PTHREAD_STACK_MIN"),
    Probe::same(
        "life_threads",
        "signal_stack",
        "sigaltstack, signalled at the gate",
    ),
    Probe::same("life_threads", "leavers", "pthread_exit"),
    caught(
        "life_cancel",
        "at_gate_deferred",
        "pthread_cancel of a thread that waits at the gate",
        held,
    ),
    caught(
        "life_cancel",
        "at_gate_asynchronous",
        "the same with asynchronous cancellation",
        held,
    ),
    Probe::same(
        "life_cancel",
        "anywhere",
        "pthread_cancel within and between calls",
    ),
    Probe::swapped("life_cancel", "in_init", "pthread_cancel within cuInit"),
];
