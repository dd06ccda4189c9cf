//! The machine's clock, its CPUs and its container runtime.

use super::finding::Finding;
use super::machine::Machine;

const CPUS: &str = "/sys/devices/system/cpu";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// These are read without a call to the kernel.
const FAST: [&str; 4] = [
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
];

pub(super) fn check(machine: &Machine) -> Vec<Finding> {
    let mut findings: Vec<_> = clock(machine).into_iter().collect();
    findings.push(governor(machine));
    findings.push(containers(machine));
    findings
}

fn clock(machine: &Machine) -> Option<Finding> {
    let source = machine.read(CLOCK)?;
    if FAST.contains(&source.as_str()) {
        return Some(Finding::ok("clock", source));
    }
    Some(Finding::warning(
        "clock",
        format!("{source} is read by a call to the kernel, which takes about 1 µs each time"),
        format!(
            "echo tsc | sudo tee {CLOCK}; cat {}",
            CLOCK.replace("current", "available")
        ),
    ))
}

/// Where CPUs go slower while idle, a grant and what follows from it take longer.
fn governor(machine: &Machine) -> Finding {
    let cpus = machine.list(CPUS).into_iter();
    let cpus = cpus.filter(|name| {
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let governors: Vec<_> = cpus
        .filter_map(|cpu| machine.read(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor")))
        .collect();
    let slow: Vec<_> = governors
        .iter()
        .filter(|name| *name != "performance")
        .collect();
    match slow.first() {
        None if governors.is_empty() => {
            Finding::ok("governor", "the CPUs' frequency is not ours to choose here")
        }
        None => Finding::ok("governor", "performance"),
        Some(first) => Finding::warning(
            "governor",
            format!(
                "{} of {} CPUs are not set to performance ({first}): grants and swaps may begin later",
                slow.len(),
                governors.len()
            ),
            "sudo cpupower frequency-set -g performance",
        ),
    }
}

fn containers(machine: &Machine) -> Finding {
    if machine.has("/.dockerenv") || machine.has("/run/.containerenv") {
        return Finding::ok(
            "containers",
            "this is one: rtswapd of the host serves it if /run/rtswap and the agent's library are mounted",
        );
    }
    let has = |program: &str| {
        ["/usr/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| machine.has(&format!("{folder}/{program}")))
    };
    let runtime = ["docker", "podman", "nerdctl"]
        .into_iter()
        .find(|program| has(program));
    match runtime {
        None => Finding::ok("containers", "no container runtime is installed"),
        Some(runtime) if has("nvidia-ctk") || has("nvidia-container-cli") => {
            Finding::ok("containers", format!("{runtime} with NVIDIA's toolkit"))
        }
        Some(runtime) => Finding::warning(
            "containers",
            format!("{runtime} is installed without NVIDIA's toolkit: its containers see no GPU"),
            "sudo apt install nvidia-container-toolkit",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    fn levels(files: &[(&str, &str)]) -> Vec<(&'static str, Level)> {
        let (_folder, machine) = with(files);
        let findings = check(&machine).into_iter();
        findings.map(|it| (it.check, it.level)).collect()
    }

    #[test]
    fn a_slow_clock_slow_cpus_and_a_bare_runtime_are_told() {
        let slow = levels(&[
            (CLOCK, "hpet\n"),
            (
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            (
                "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "/sys/devices/system/cpu/cpufreq/scaling_governor",
                "powersave\n",
            ),
            ("/usr/bin/docker", ""),
        ]);
        assert!(
            slow.iter().all(|(_, level)| *level == Level::Warning),
            "{slow:?}"
        );
        assert_eq!(slow.len(), 3);
        let fast = levels(&[
            (CLOCK, "tsc\n"),
            (
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            ("/usr/bin/docker", ""),
            ("/usr/bin/nvidia-ctk", ""),
        ]);
        assert!(
            fast.iter().all(|(_, level)| *level == Level::Ok),
            "{fast:?}"
        );
    }
}
