//! What the packaged unit gives the daemon, read from its file so that the two cannot differ.

/// The unit.
const SERVICE: &str = include_str!("../../../packaging/rtswapd.service");

/// What the simulated GPU needs besides: another user owns its machine.
const SIMGPU: &str = include_str!("../../../packaging/simgpu/rtswapd-simgpu.conf");

/// The capabilities that the daemon may have, as setpriv(1) takes them.
pub(crate) fn bounding_set() -> String {
    let mut set = String::from("-all");
    for name in values(SERVICE, "CapabilityBoundingSet")
        .chain(values(SIMGPU, "CapabilityBoundingSet"))
        .flat_map(str::split_whitespace)
    {
        let name = name.strip_prefix("CAP_").unwrap_or(name).to_lowercase();
        set.push_str(",+");
        set.push_str(&name);
    }
    set
}

/// The limit of open descriptors.
pub(crate) fn descriptors() -> u32 {
    let value = values(SERVICE, "LimitNOFILE").next();
    let limit = value.and_then(|value| value.parse().ok());
    limit.expect("the unit has a limit of descriptors")
}

fn values<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_read() {
        let set = bounding_set();
        assert!(set.starts_with("-all,+kill,+bpf,+perfmon,"), "{set}");
        assert!(set.ends_with(",+dac_override"), "{set}");
        assert!(!set.contains("setuid"), "{set}");
        assert!(descriptors() > 1024);
    }
}
