//! Other forms of probed functions that the daemon's eBPF probes are not on.

/// Reasons, and the functions that each holds for.
pub const UNPROBED: &[(&str, &[&str])] = &[(
    "the form before CUDA 3.2, with addresses and sizes of 32 bits: since then cuda.h gives a program that names it the next \
     one, and the agent, which programs of that age may have, hooks it",
    &[
        "cuArray3DCreate",
        "cuArrayCreate",
        "cuMemAlloc",
        "cuMemAllocPitch",
        "cuMemFree",
    ],
)];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rtswap_probe_abi::functions::FUNCTIONS;

    use super::*;

    #[test]
    fn what_is_probed_needs_no_reason() {
        let mut seen = BTreeSet::new();
        for name in UNPROBED.iter().flat_map(|(_, names)| *names) {
            assert!(seen.insert(*name), "{name} is named twice");
            let probed = FUNCTIONS.iter().any(|on| on.symbol == *name);
            assert!(!probed, "{name} is probed");
        }
    }
}
