//! The origin of a process, its container or unit, from the text of /proc/PID/cgroup.

use std::fs;

/// The container or unit of a process: `docker 3f2a1b4c5d6e`, `kubernetes 0123456789ab`,
/// `nginx.service`. None where it belongs to a user's session, or to neither.
pub fn of_process(pid: u32) -> Option<String> {
    parse(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// The digits of a container's id that tools show.
const SHOWN: usize = 12;

/// As [`of_process`], from the text of the file. Each line is `NUMBER:CONTROLLERS:PATH`; cgroups version 2
/// has one line, with number 0 (cgroups(7)).
pub fn parse(cgroup: &str) -> Option<String> {
    let paths = cgroup.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        // Preferred is systemd's own tree of version 1, then that of version 2, which may exist and be
        // empty; the controllers' trees come last.
        let rank = match (controllers, number) {
            ("name=systemd", _) => 0,
            ("", "0") => 1,
            _ => 2,
        };
        Some((rank, path))
    });
    let mut paths: Vec<_> = paths.filter(|(_, path)| *path != "/").collect();
    paths.sort_by_key(|(rank, _)| *rank);
    let containers = paths.iter().find_map(|(_, path)| container(path));
    let units = || paths.iter().find_map(|(_, path)| unit(path));
    containers.or_else(units).filter(|name| is_plain(name))
}

/// The container of the outermost part of the path that names one. The root of a container names the parts within, and
/// could pass for any number of owners by them.
fn container(path: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (at, (kind, number)) = parts
        .iter()
        .enumerate()
        .find_map(|(at, part)| Some((at, scope(part)?)))?;
    let above = &parts[..at];
    let under = |name: &str| above.iter().any(|part| part.starts_with(name));
    let runtime = if under("kubepods") {
        "kubernetes"
    } else if let Some(kind) = kind {
        kind
    } else if under("docker") {
        "docker"
    } else if under("libpod") || under("machine.slice") {
        "podman"
    } else if under("lxc") {
        "lxc"
    } else {
        "container"
    };
    Some(format!("{runtime} {}", &number[..SHOWN]))
}

/// The runtime, if the part names it, and the container's id of 64 hexadecimal digits.
fn scope(part: &str) -> Option<(Option<&'static str>, &str)> {
    const PREFIXES: [(&str, &str); 5] = [
        ("docker", "docker"),
        ("libpod", "podman"),
        ("cri-containerd", "containerd"),
        ("crio", "cri-o"),
        ("nerdctl", "containerd"),
    ];
    let name = part.strip_suffix(".scope").unwrap_or(part);
    // `docker-ID.scope`, or `system.slice:docker:ID` where a runtime is set up for systemd and there is none.
    let (prefix, number) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    let prefix = prefix.rsplit(':').next()?;
    let kind = PREFIXES.iter().find(|(known, _)| *known == prefix);
    let kind = kind.map(|(_, kind)| *kind);
    let is_number = number.len() == 64 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then_some((kind, number))
}

/// The outermost unit, or container of LXC, of the path: containers name the parts within. A login session and a user's
/// own service manager are none.
fn unit(path: &str) -> Option<String> {
    const SESSIONS: [&str; 3] = ["session-", "init.scope", "user@"];
    let mut parts = path.split('/');
    parts.find_map(|part| {
        if let Some(name) = part.strip_prefix("lxc.payload.") {
            return Some(format!("lxc {name}"));
        }
        let kind = part.rsplit_once('.').map(|(_, kind)| kind);
        let is_unit = matches!(kind, Some("service" | "scope"));
        let is_session = SESSIONS.iter().any(|session| part.starts_with(session));
        (is_unit && !is_session).then(|| part.to_owned())
    })
}

/// Whether the name can be shown: a path of cgroups may hold any bytes.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    name.len() <= 128 && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a1b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70f";

    fn says(cgroup: &str) -> Option<String> {
        parse(&cgroup.replace("ID", ID))
    }

    #[track_caller]
    fn is(cgroup: &str, expected: &str) {
        assert_eq!(says(cgroup).as_deref(), Some(expected), "{cgroup}");
    }

    #[test]
    fn containers_of_docker() {
        let name = "docker 3f2a1b4c5d6e";
        is("0::/system.slice/docker-ID.scope\n", name);
        is("0::/docker/ID\n", name);
        is(
            "12:memory:/docker/ID\n11:cpu,cpuacct:/docker/ID\n1:name=systemd:/docker/ID\n0::/\n",
            name,
        );
        is("0::/system.slice:docker:ID\n", name);
    }

    #[test]
    fn containers_of_podman_and_containerd() {
        is(
            "0::/machine.slice/libpod-ID.scope/container\n",
            "podman 3f2a1b4c5d6e",
        );
        is(
            "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope\n",
            "podman 3f2a1b4c5d6e",
        );
        is(
            "0::/system.slice/nerdctl-ID.scope\n",
            "containerd 3f2a1b4c5d6e",
        );
        is("0::/default/ID\n", "container 3f2a1b4c5d6e");
    }

    #[test]
    fn containers_of_kubernetes() {
        let name = "kubernetes 3f2a1b4c5d6e";
        is(
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b.slice/\
             cri-containerd-ID.scope\n",
            name,
        );
        is(
            "4:memory:/kubepods/besteffort/pod0a1b-22/ID\n1:name=systemd:/kubepods/besteffort/pod0a1b-22/ID\n",
            name,
        );
        is(
            "0::/kubepods.slice/kubepods-pod9.slice/crio-ID.scope\n",
            name,
        );
    }

    #[test]
    fn units_of_the_system_and_of_a_user() {
        is("0::/system.slice/nginx.service\n", "nginx.service");
        is(
            "0::/system.slice/system-getty.slice/getty@tty1.service\n",
            "getty@tty1.service",
        );
        is(
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service\n",
            "train.service",
        );
        is(
            "9:memory:/system.slice/x.service\n1:name=systemd:/system.slice/x.service/worker\n0::/system.slice/y.service\n",
            "x.service",
        );
        is("0::/system.slice/run-r12.scope\n", "run-r12.scope");
    }

    #[test]
    fn what_a_container_names_is_the_container_s() {
        is(
            "0::/system.slice/docker-ID.scope/docker-0000000000000000000000000000000000000000000000000000000000000000.scope\n",
            "docker 3f2a1b4c5d6e",
        );
        is(
            "0::/machine.slice/systemd-nspawn@web.service/payload/system.slice/x.service\n",
            "systemd-nspawn@web.service",
        );
        is("0::/lxc.payload.web/system.slice/x.service\n", "lxc web");
        is("0::/lxc.payload.web/init.scope\n", "lxc web");
    }

    #[test]
    fn sessions_and_roots_are_nothing() {
        for text in [
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n",
            "0::/init.scope\n",
            "0::/\n",
            "4:memory:/\n1:name=systemd:/\n0::/\n",
            "",
            "nonsense\n::\n",
        ] {
            assert_eq!(says(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_unfit_to_be_shown_is_not() {
        assert_eq!(parse("0::/system.slice/a\u{1b}[2Jb.service\n"), None);
        assert_eq!(parse(&format!("0::/{}.service\n", "x".repeat(300))), None);
        // Too short for a container's number, and so no slice of it is taken.
        assert_eq!(parse("0::/docker/abc\n"), None);
        assert_eq!(parse("0::/docker-\u{e9}\n"), None);
    }
}
