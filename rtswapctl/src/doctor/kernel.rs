//! What the eBPF probes need of the kernel. Without them rtswap works, and knows less of programs without the agent.

use super::finding::Finding;
use super::machine::Machine;

/// Shows that the kernel has uprobes.
const UPROBES: &str = "/sys/bus/event_source/devices/uprobe/type";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// `probes` is how the daemon says that its own do; none where none answers.
pub(super) fn check(machine: &Machine, probes: Option<&str>) -> Vec<Finding> {
    let mut findings = vec![uprobes(machine), tracefs(machine), btf(machine)];
    if let Some(state) = probes {
        findings.push(probing(state));
    }
    findings
}

fn uprobes(machine: &Machine) -> Finding {
    if machine.has(UPROBES) {
        return Finding::ok("uprobes", "the kernel has them");
    }
    Finding::warning(
        "uprobes",
        format!(
            "there is no {UPROBES}: memory of programs without the agent is known by NVML alone"
        ),
        "boot a kernel with CONFIG_UPROBE_EVENTS and CONFIG_BPF_EVENTS",
    )
}

fn tracefs(machine: &Machine) -> Finding {
    match machine.mounts("tracefs").first() {
        Some(path) => Finding::ok("tracefs", format!("mounted on {path}")),
        None => Finding::warning(
            "tracefs",
            "it is not mounted, and the probes cannot see processes end without it",
            "sudo mount -t tracefs none /sys/kernel/tracing && sudo systemctl restart rtswapd",
        ),
    }
}

fn btf(machine: &Machine) -> Finding {
    if machine.has(BTF) {
        return Finding::ok("btf", "the kernel describes its types");
    }
    Finding::warning(
        "btf",
        format!(
            "there is no {BTF}: rtswap's own probes need none, but tools to look into them do, such as bpftrace"
        ),
        "boot a kernel with CONFIG_DEBUG_INFO_BTF",
    )
}

fn probing(state: &str) -> Finding {
    match state.strip_prefix("missing: ") {
        Some(why) => Finding::warning(
            "probes",
            format!("rtswapd has none: {why}"),
            "journalctl -u rtswapd -g probes; then sudo systemctl restart rtswapd",
        ),
        None if state == "off" => {
            Finding::ok("probes", "off: by the configuration, or not attached yet")
        }
        None => Finding::ok("probes", state),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    #[test]
    fn what_is_missing_is_a_warning_each() {
        let levels = |findings: Vec<Finding>| -> Vec<_> {
            let findings = findings.into_iter();
            findings.map(|it| (it.check, it.level)).collect()
        };
        let (_folder, machine) = with(&[]);
        let bare = levels(check(&machine, Some("missing: tracefs")));
        let all = [Level::Warning; 4];
        let names = ["uprobes", "tracefs", "btf", "probes"];
        assert_eq!(bare, names.into_iter().zip(all).collect::<Vec<_>>());
        let (_folder, machine) = with(&[
            (UPROBES, "9\n"),
            (BTF, ""),
            (
                "/proc/self/mounts",
                "t /sys/kernel/tracing tracefs rw 0 0\n",
            ),
        ]);
        let good = levels(check(&machine, Some("on")));
        assert!(
            good.iter().all(|(_, level)| *level == Level::Ok),
            "{good:?}"
        );
        assert_eq!(check(&machine, None).len(), 3);
    }
}
