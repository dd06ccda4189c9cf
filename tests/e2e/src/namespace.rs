//! The PID namespace that the tests run in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
const INITIAL: u64 = 0xEFFF_FFFC;

/// Whether this process is in the initial PID namespace, not in one of a container. Only there do pids that eBPF
/// probes tell without being asked for a namespace agree with those of the tests.
#[must_use]
pub fn is_initial_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL)
}
