//! What of a service's sandbox keeps the agent from its work.

use std::fs;
use std::path::Path;

use super::systemd::Properties;

/// The calls without which the agent reaches no daemon.
const NEEDED: [&str; 6] = [
    "connect",
    "eventfd2",
    "recvmsg",
    "sendmsg",
    "signalfd4",
    "socket",
];
/// Those that it makes beside them, and can do without where they fail. They end the process where the filter kills.
const USED: [&str; 4] = ["membarrier", "pidfd_open", "ppoll", "rt_sigqueueinfo"];
/// An `errno` is at most this: beyond it `SystemCallErrorNumber=` stands for killing.
const MOST_ERRNO: u32 = 4095;

/// Something that stands in the agent's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The service would run without the agent, or not at all.
    Fatal(String),
    /// It depends on what cannot be seen from here.
    Doubt(String),
}

/// The obstacles for a service that preloads `preload`. `library` is the agent's file, `runtime_dir` the daemon's folder.
pub(super) fn obstacles(
    service: &Properties,
    preload: &str,
    library: &Path,
    runtime_dir: &Path,
) -> Vec<Obstacle> {
    let environment = unset(service)
        .into_iter()
        .chain(overridden(service, preload, library));
    let calls = sockets(service).into_iter().chain(filter(service));
    let files = root(service, library, runtime_dir).into_iter();
    environment
        .chain(calls)
        .chain(files)
        .chain(hidden(service, library, runtime_dir))
        .collect()
}

fn unset(service: &Properties) -> Option<Obstacle> {
    let is_ours = |word: &&String| {
        let name = word.split_once('=').map_or(&***word, |(name, _)| name);
        ["LD_PRELOAD", "RTSWAP_TASK", "RTSWAP_RUNTIME_DIR"].contains(&name)
    };
    let words = service.words("UnsetEnvironment");
    let found = words.iter().find(is_ours)?;
    Some(Obstacle::Fatal(format!(
        "its UnsetEnvironment= takes {found} away again; remove that line"
    )))
}

/// `EnvironmentFile=` goes before `Environment=`. A file that is read when the service starts may come later, or change.
fn overridden(service: &Properties, preload: &str, library: &Path) -> Option<Obstacle> {
    let agent = library.file_name()?.to_string_lossy();
    service.all("EnvironmentFiles").iter().find_map(|entry| {
        let path = entry.split(" (").next()?;
        let text = fs::read_to_string(path).ok()?;
        let assigned = text.lines().rev().find_map(|line| {
            let (key, value) = line.trim_start().split_once('=')?;
            (key.trim_end() == "LD_PRELOAD").then_some(value)
        })?;
        (!assigned.contains(&*agent)).then(|| {
            Obstacle::Fatal(format!(
                "LD_PRELOAD in its EnvironmentFile={path} goes before what is written for it; write LD_PRELOAD={preload} there, \
                 in front of what is there"
            ))
        })
    })
}

fn sockets(service: &Properties) -> Option<Obstacle> {
    let (is_denied, names) = list(service.one("RestrictAddressFamilies"))?;
    (names.contains(&"AF_UNIX") == is_denied).then(|| {
        Obstacle::Fatal(
            "its RestrictAddressFamilies= lacks AF_UNIX, over which the agent reaches rtswapd; add it".to_owned(),
        )
    })
}

fn filter(service: &Properties) -> Option<Obstacle> {
    let (is_denied, names) = list(service.one("SystemCallFilter"))?;
    let number = service.one("SystemCallErrorNumber");
    let fails = number.starts_with('E')
        || number
            .parse()
            .is_ok_and(|number| (1..=MOST_ERRNO).contains(&number));
    let used: &[_] = if fails { &[] } else { &USED };
    let calls = NEEDED.iter().chain(used);
    // A call may have an error of its own behind a colon.
    let is_listed = |call: &str| {
        names
            .iter()
            .any(|name| name.split(':').next() == Some(call))
    };
    let refused: Vec<_> = calls
        .copied()
        .filter(|call| is_listed(call) == is_denied)
        .collect();
    (!refused.is_empty()).then(|| {
        Obstacle::Fatal(format!(
            "its SystemCallFilter= refuses {}, which the agent calls; add SystemCallFilter={}",
            refused.join(", "),
            refused.join(" ")
        ))
    })
}

/// A list that allows what it names, or behind a `~` denies it; none where nothing is restricted.
fn list(text: &str) -> Option<(bool, Vec<&str>)> {
    let (is_denied, names) = match text.strip_prefix('~') {
        Some(names) => (true, names),
        None => (false, text),
    };
    let names: Vec<_> = names.split_whitespace().collect();
    (!names.is_empty()).then_some((is_denied, names))
}

fn root(service: &Properties, library: &Path, runtime_dir: &Path) -> Option<Obstacle> {
    let key = ["RootDirectory", "RootImage"]
        .into_iter()
        .find(|key| !["", "/"].contains(&service.one(key)))?;
    Some(Obstacle::Doubt(format!(
        "it has a {key}=: the agent works only where {0} and {1} are to be seen in it, as by BindReadOnlyPaths={0} {1}",
        library.display(),
        runtime_dir.display()
    )))
}

/// Where the library or the daemon's folder lies below something that the service does not see.
fn hidden(service: &Properties, library: &Path, runtime_dir: &Path) -> Vec<Obstacle> {
    let mut covers: Vec<(&str, String)> = Vec::new();
    for key in ["InaccessiblePaths", "TemporaryFileSystem"] {
        for word in service.words(key) {
            let path = word.trim_start_matches(['-', '+']);
            let path = path.split(':').next().unwrap_or(path);
            covers.push((key, path.to_owned()));
        }
    }
    if !["", "no", "read-only"].contains(&service.one("ProtectHome")) {
        let homes = ["/home", "/root", "/run/user"];
        covers.extend(homes.map(|path| ("ProtectHome", path.to_owned())));
    }
    if !["", "no"].contains(&service.one("PrivateTmp")) {
        covers.extend(["/tmp", "/var/tmp"].map(|path| ("PrivateTmp", path.to_owned())));
    }
    let mut obstacles = Vec::new();
    for wanted in [library, runtime_dir] {
        let cover = covers.iter().find(|(_, path)| wanted.starts_with(path));
        if let Some((key, _)) = cover {
            obstacles.push(Obstacle::Doubt(format!(
                "its {key}= hides {0}, which the agent needs; add BindReadOnlyPaths={0} unless that is there",
                wanted.display()
            )));
        }
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/librtswap_cuda.so";

    fn found(text: &str) -> Vec<Obstacle> {
        found_with(text, Path::new(LIBRARY))
    }

    fn found_with(text: &str, library: &Path) -> Vec<Obstacle> {
        let service = Properties::parse(text);
        obstacles(&service, "/agent.so", library, Path::new("/run/rtswap"))
    }

    fn is_fatal(text: &str) -> bool {
        matches!(&found(text)[..], [Obstacle::Fatal(_)])
    }

    #[test]
    fn the_usual_sandboxes_are_none() {
        let usual = "RestrictAddressFamilies=AF_INET AF_UNIX\nSystemCallFilter=~mount umount2 kexec_load\n\
                     SystemCallErrorNumber=2147483646\nRootDirectory=\nRootImage=\nProtectHome=yes\nPrivateTmp=yes\n\
                     InaccessiblePaths=/boot -/media\nTemporaryFileSystem=/srv:ro\nUnsetEnvironment=LANG";
        assert_eq!(found(usual), []);
        assert_eq!(found("RestrictAddressFamilies=~\nSystemCallFilter=~"), []);
        assert_eq!(found(""), []);
    }

    #[test]
    fn an_agent_without_sockets_or_calls_is_told_before_it_is_attached() {
        assert!(is_fatal("RestrictAddressFamilies=AF_INET AF_INET6"));
        assert!(is_fatal("RestrictAddressFamilies=~AF_UNIX AF_NETLINK"));
        assert!(is_fatal(
            "SystemCallFilter=read write\nSystemCallErrorNumber=1"
        ));
        assert!(is_fatal("SystemCallFilter=~socket:1 mount"));
        let allowed = "SystemCallFilter=connect eventfd2 recvmsg sendmsg signalfd4 socket\nSystemCallErrorNumber=";
        assert!(is_fatal(&format!("{allowed}2147483646")));
        assert_eq!(found(&format!("{allowed}EPERM")), []);
        assert_eq!(found(&format!("{allowed}1")), []);
        assert!(is_fatal("UnsetEnvironment=LANG LD_PRELOAD=/a.so"));
    }

    #[test]
    fn what_the_service_may_not_see_is_a_doubt() {
        let root = found("RootImage=/var/lib/a.raw");
        assert!(
            matches!(&root[..], [Obstacle::Doubt(text)] if text.contains("BindReadOnlyPaths=/usr/lib"))
        );
        assert_eq!(found("TemporaryFileSystem=/run:ro -/usr").len(), 2);
        let home = Path::new("/home/ann/agent.so");
        assert_eq!(found_with("ProtectHome=tmpfs", home).len(), 1);
        assert_eq!(found_with("ProtectHome=read-only", home).len(), 0);
        assert_eq!(
            found_with("PrivateTmp=yes", Path::new("/tmp/agent.so")).len(),
            1
        );
    }

    #[test]
    fn a_file_that_sets_the_same_variable_goes_before_the_drop_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("default");
        let service = format!("EnvironmentFiles={} (ignore_errors=yes)", file.display());
        assert_eq!(found(&service), []);
        fs::write(&file, "A=1\nLD_PRELOAD=/b.so\n").unwrap();
        assert!(is_fatal(&service));
        fs::write(&file, "LD_PRELOAD=/usr/$LIB/librtswap_cuda.so:/b.so\n").unwrap();
        assert_eq!(found(&service), []);
        fs::write(&file, "#LD_PRELOAD=/b.so\nRTSWAP_LOG=debug\n").unwrap();
        assert_eq!(found(&service), []);
    }
}
