//! NVIDIA's multi-process server (MPS), through which programs of one user share a context.

use super::finding::Finding;
use super::machine::Machine;

/// What the kernel keeps of the names `nvidia-cuda-mps-server` and `-control`.
const NAME: &str = "nvidia-cuda-mps";

pub(super) fn check(machine: &Machine) -> Vec<Finding> {
    let servers = machine.processes(NAME);
    let Some(first) = servers.first() else {
        return vec![Finding::ok("mps", "no multi-process server runs")];
    };
    let mut findings = vec![Finding::warning(
        "mps",
        format!(
            "a multi-process server, or what controls it, runs (process {}): NVML cannot tell what each of its programs holds, so that \
             agents are believed",
            first.pid
        ),
        "echo quit | nvidia-cuda-mps-control",
    )];
    findings.extend(limited(machine));
    findings
}

/// With a limit of GPU memory on its cgroup (dmem, Linux 6.14) a program of MPS is ended where another would be
/// told that there is no memory.
fn limited(machine: &Machine) -> Option<Finding> {
    let (file, limit) = machine
        .cgroup("dmem.max")
        .into_iter()
        .find_map(|(file, text)| {
            let mut limits = text.lines().filter_map(|line| line.rsplit_once(' '));
            let (region, limit) = limits.find(|(_, limit)| *limit != "max")?;
            Some((file, format!("{region} {limit}")))
        })?;
    Some(Finding::warning(
        "mps-limit",
        format!(
            "{file} limits GPU memory ({limit}): under MPS a program beyond it is ended, not swapped"
        ),
        format!(
            "echo \"{} max\" | sudo tee {file}",
            limit.split(' ').next().unwrap_or_default()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    #[test]
    fn a_server_and_the_limit_of_its_programs_are_found() {
        let (_folder, machine) = with(&[]);
        assert_eq!(check(&machine)[0].level, Level::Ok);
        let (_folder, machine) = with(&[
            ("/proc/9/comm", "nvidia-cuda-mps\n"),
            ("/proc/9/cmdline", "nvidia-cuda-mps-server\0"),
            ("/proc/self/mounts", "cgroup2 /cg cgroup2 rw 0 0\n"),
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/cg/a/b/dmem.max", "drm/0000:01:00.0/vram0 max\n"),
            ("/cg/a/dmem.max", "drm/0000:01:00.0/vram0 1073741824\n"),
        ]);
        let findings = check(&machine);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].found.contains("process 9"));
        assert!(
            findings[1].found.starts_with("/cg/a/dmem.max limits"),
            "{findings:?}"
        );
        let mend = findings[1].mend.as_deref();
        assert_eq!(
            mend,
            Some("echo \"drm/0000:01:00.0/vram0 max\" | sudo tee /cg/a/dmem.max")
        );
    }
}
