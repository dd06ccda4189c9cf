//! What programs do wrong, or only seldom.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::same("trap", "null_out", "NULL where an answer belongs"),
    Probe::same("trap", "zero_sizes", "allocations and copies of nothing"),
    Probe::same(
        "trap",
        "too_much",
        "more than there is, and sizes that overflow",
    ),
    Probe::same("trap", "no_context", "calls without a current context"),
    Probe::same("trap", "no_init", "calls before cuInit, and cuInit twice"),
    Probe::swapped("trap", "capture_alloc", "cuMemAlloc_v2 within a capture"),
    Probe::same(
        "trap",
        "call_in_host_function",
        "a driver call within a host function",
    ),
    Probe::swapped("trap", "threads", "six threads that allocate at once"),
    Probe::swapped(
        "trap",
        "context_destroyed",
        "cuCtxDestroy_v2 with memory that is out",
    ),
    Probe::swapped(
        "trap",
        "context_reset",
        "cuDevicePrimaryCtxReset_v2 with memory that is out",
    ),
    Probe::swapped(
        "trap",
        "stream_destroyed",
        "cuStreamDestroy_v2 with work on it",
    ),
    Probe::swapped(
        "trap",
        "capture_lost",
        "threads that end within captures on CU_STREAM_PER_THREAD",
    ),
];
