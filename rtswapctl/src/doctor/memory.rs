//! Host memory for what leaves a GPU: whether it is there, and may be used.

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use super::machine::Machine;
use crate::table::bytes;

/// What Linux has allowed by default since 5.16, in bytes.
const LOCKED: u64 = 8 << 20;

/// What programs may have to keep in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// What the visible tasks declared that may be swapped and is not pinned yet, in bytes.
    pub(super) declared: u64,
    /// The memory of the largest GPU in bytes, 0 if none is known.
    pub(super) gpu: u64,
}

pub(super) fn check(machine: &Machine, needs: Needs) -> Vec<Finding> {
    let mut findings = vec![locked(getrlimit(Resource::Memlock).current)];
    findings.extend(available(machine, needs));
    findings.push(limit(machine, needs));
    findings
}

/// By the kernel's part of NVIDIA's driver, pinned memory is not counted by this limit.
fn locked(most: Option<u64>) -> Finding {
    match most {
        Some(most) if most < LOCKED => Finding::warning(
            "memlock",
            format!(
                "programs may lock {} of memory: enough for NVIDIA's driver, which does not count it, and too \
                 little for libraries that register memory for a network, such as NCCL over InfiniBand",
                bytes(most)
            ),
            "ulimit -l unlimited; in a unit: LimitMEMLOCK=infinity; for all: `* - memlock unlimited` in \
             /etc/security/limits.d/rtswap.conf",
        ),
        Some(most) => Finding::ok(
            "memlock",
            format!("programs may lock {} of memory", bytes(most)),
        ),
        None => Finding::ok("memlock", "programs may lock any amount of memory"),
    }
}

fn available(machine: &Machine, needs: Needs) -> Option<Finding> {
    let text = machine.read("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    let free = kib << 10;
    Some(judge(
        "host-memory",
        "the host has",
        "available",
        free,
        needs,
        "end what else uses it, or add memory",
    ))
}

fn limit(machine: &Machine, needs: Needs) -> Finding {
    let limits = machine.cgroup("memory.max").into_iter();
    let limits = limits.chain(machine.cgroup("memory.high"));
    let least = limits
        .filter_map(|(file, text)| Some((text.parse::<u64>().ok()?, file)))
        .min();
    let Some((most, file)) = least else {
        let found = "no cgroup of version 2 limits the memory of programs started here";
        return Finding::ok("cgroup-memory", found);
    };
    let found = format!("{file} allows");
    let setting = if file.ends_with("high") {
        "MemoryHigh"
    } else {
        "MemoryMax"
    };
    let mend = format!("echo max | sudo tee {file}; in a unit: {setting}=infinity");
    judge("cgroup-memory", &found, "", most, needs, &mend)
}

/// Compares what there is with what programs may need.
fn judge(
    check: &'static str,
    what: &str,
    how: &str,
    there: u64,
    needs: Needs,
    mend: &str,
) -> Finding {
    let there_text = format!("{what} {} {how}", bytes(there))
        .trim_end()
        .to_owned();
    if there < needs.declared {
        let declared = bytes(needs.declared);
        let found = format!("{there_text}, and the tasks here may swap {declared} more");
        Finding::fault(check, found, mend)
    } else if there < needs.gpu {
        let gpu = bytes(needs.gpu);
        let found = format!("{there_text}, less than the GPU's {gpu}: not all of it can leave");
        Finding::warning(check, found, mend)
    } else {
        Finding::ok(check, there_text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    #[test]
    fn a_small_limit_of_locked_memory_is_told() {
        assert_eq!(locked(Some(64 << 10)).level, Level::Warning);
        assert_eq!(locked(Some(LOCKED)).level, Level::Ok);
        assert_eq!(locked(None).level, Level::Ok);
    }

    #[test]
    fn memory_is_compared_with_what_tasks_declared_and_with_the_gpu() {
        let (_folder, machine) = with(&[
            (
                "/proc/meminfo",
                "MemTotal: 9 kB\nMemAvailable:    2048 kB\n",
            ),
            ("/proc/self/mounts", "cgroup2 /cg cgroup2 rw 0 0\n"),
            ("/proc/self/cgroup", "4:memory:/x\n0::/a/b\n"),
            ("/cg/a/b/memory.max", "max\n"),
            ("/cg/a/memory.max", "1048576\n"),
        ]);
        let levels = |declared, gpu| {
            let findings = check(&machine, Needs { declared, gpu });
            let levels: Vec<_> = findings[1..].iter().map(|it| it.level).collect();
            (levels, findings[2].found.clone())
        };
        let (fine, _) = levels(0, 1 << 20);
        assert_eq!(fine, [Level::Ok, Level::Ok]);
        let (between, found) = levels(0, 2 << 20);
        assert_eq!(between, [Level::Ok, Level::Warning]);
        assert!(
            found.starts_with("/cg/a/memory.max allows 1 MiB, less than"),
            "{found}"
        );
        assert_eq!(levels(3 << 20, 3 << 20).0, [Level::Fault, Level::Fault]);
    }
}
