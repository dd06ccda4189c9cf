//! Probes that say nothing under another command, such as valgrind: the list, with the reason of each.

use crate::table::Probe;

/// Names, or their beginnings.
const HINDERED: [(&str, &str); 19] = [
    ("life_sandbox.", "valgrind knows no seccomp"),
    ("life_limits.soft", VALGRINDS_OWN),
    ("life_limits.at_limit", VALGRINDS_OWN),
    ("life_limits.hard_few", VALGRINDS_OWN),
    ("life_limits.lowered", VALGRINDS_OWN),
    (
        "life_odd.small_files",
        "valgrind's log is a file that may not grow either",
    ),
    (
        "life_threads.thousands",
        "two thousand threads take valgrind minutes",
    ),
    ("life_fork.cloned", "valgrind knows no clone with CLONE_VM"),
    ("life_fork.exec_self", ITSELF),
    ("life_load.in_constructor", ITSELF),
    (
        "life_load.in_dlopen",
        "under valgrind the swap thread does not start while the loader's lock is held",
    ),
    (
        "life_end.fault",
        "its own fault is an error to the tool, also without the agent",
    ),
    ("life_plain.python", STARTED_BARE),
    ("life_plain.java", STARTED_BARE),
    ("life_plain.static", STARTED_BARE),
    ("life_plain.32_bits", STARTED_BARE),
    ("life_plain.musl", STARTED_BARE),
    ("life_plain.preload_missing", STARTED_BARE),
    ("life_plain.set_group", STARTED_BARE),
];

const VALGRINDS_OWN: &str = "valgrind keeps descriptors of its own below the limit";
const ITSELF: &str = "/proc/self/exe, which it executes, is valgrind";
const STARTED_BARE: &str = "it is started without the command";

/// Why a probe is not run under another command, if it is not.
pub fn hindrance(probe: &Probe) -> Option<&'static str> {
    let name = probe.name();
    let mut hindered = HINDERED.iter();
    let found = hindered.find(|(beginning, _)| name.starts_with(beginning));
    found.map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_names_a_probe() {
        let names: Vec<String> = crate::table::all().iter().map(|it| it.name()).collect();
        for (beginning, _) in HINDERED {
            let is_one = names.iter().any(|name| name.starts_with(beginning));
            assert!(is_one, "{beginning}");
        }
    }
}
