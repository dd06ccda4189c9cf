//! The daemon, its folder, and its place on the system bus.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rtswap_dbus::BUS_NAME;
use rtswap_dbus::connect::DEFAULT_RUNTIME_DIR;
use rtswap_dbus::driver::ARGUMENT;
use rustix::fs::statvfs;
use zbus::connection;
use zbus::fdo::DBusProxy;

use super::finding::Finding;
use super::machine::Machine;
use crate::daemon::converse;
use crate::failure::Failure;
use crate::table::bytes;

/// What the daemon's folder needs, in bytes: its journal has at most half of that.
const ROOM: u64 = 2 << 20;

/// Folders where the bus looks for policies.
const POLICIES: [&str; 2] = ["/usr/share/dbus-1/system.d", "/etc/dbus-1/system.d"];
const POLICY: &str = "org.rtswap.conf";
const ACTIONS: &str = "/usr/share/polkit-1/actions/org.rtswap.policy";
const POLKIT: &str = "org.freedesktop.PolicyKit1";

/// The daemon. `version` is what it says of itself, `runtime_dir` its folder where that was named.
pub(super) fn check(
    machine: &Machine,
    runtime_dir: Option<&Path>,
    version: &Result<String, Failure>,
) -> Vec<Finding> {
    let mut findings = vec![answers(version, runtime_dir)];
    // One with a folder of its own is meant to be another.
    if runtime_dir.is_none() {
        findings.push(alone(machine));
    }
    let folder = runtime_dir.unwrap_or(Path::new(DEFAULT_RUNTIME_DIR));
    findings.extend(room(folder));
    if runtime_dir.is_none() {
        findings.extend(bus(machine));
    }
    findings
}

fn answers(version: &Result<String, Failure>, runtime_dir: Option<&Path>) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match version {
        Ok(version) if version == own => {
            Finding::ok("daemon", format!("rtswapd {version} answers"))
        }
        Ok(version) => Finding::warning(
            "daemon",
            format!("rtswapd {version} answers, and this is rtswapctl {own}"),
            "sudo systemctl restart rtswapd",
        ),
        Err(failure) => {
            let mend = match runtime_dir {
                Some(folder) => format!("rtswapd --runtime-dir {}", folder.display()),
                None => {
                    "sudo systemctl start rtswapd; journalctl -u rtswapd says why it ended".into()
                }
            };
            Finding::fault("daemon", failure.to_string(), mend)
        }
    }
}

/// Two daemons do not know of each other's grants, so that neither can promise anything. Only processes that /proc
/// shows here are looked at.
fn alone(machine: &Machine) -> Finding {
    let asks = |argument: &String| argument == ARGUMENT || argument == "--ask-driver";
    let mut daemons = machine.processes("rtswapd");
    daemons.retain(|process| !process.arguments.iter().any(asks));
    if daemons.len() < 2 {
        return Finding::ok("one-daemon", "no second rtswapd is to be seen from here");
    }
    let own = machine.read(&format!("{DEFAULT_RUNTIME_DIR}/lock"));
    let own = own.and_then(|pid| pid.parse::<u32>().ok());
    let pids = daemons.iter().map(|process| process.pid);
    let all: Vec<_> = pids.clone().map(|pid| pid.to_string()).collect();
    let others: Vec<_> = pids
        .filter(|pid| Some(*pid) != own)
        .map(|pid| pid.to_string())
        .collect();
    let mend = match own {
        Some(own) if others.len() < all.len() => {
            format!(
                "end what is not the system's, process {own}: sudo kill {}",
                others.join(" ")
            )
        }
        _ => format!("ps -fp {}; end all but one", all.join(",")),
    };
    Finding::fault(
        "one-daemon",
        format!(
            "{} rtswapd run (processes {}) and know nothing of each other: no deadline is sure",
            all.len(),
            all.join(", ")
        ),
        mend,
    )
}

/// Whether the folder, or the one it will be made in, has room.
fn room(folder: &Path) -> Option<Finding> {
    let there: PathBuf = folder.ancestors().find(|path| path.exists())?.to_owned();
    let space = statvfs(&there).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let is_without_files = space.f_files > 0 && space.f_favail == 0;
    let shown = there.display();
    if free >= ROOM && !is_without_files {
        return Some(Finding::ok("runtime-folder", format!("{shown} has room")));
    }
    let left = if is_without_files {
        "takes no more files".to_owned()
    } else {
        format!("has {} left", bytes(free))
    };
    Some(Finding::fault(
        "runtime-folder",
        format!("{shown} {left}: after a restart rtswapd would not know its tasks"),
        format!(
            "sudo du -xah {} | sort -h | tail; remove what fills it",
            mount_of(&there).display()
        ),
    ))
}

/// The highest folder of the same file system.
fn mount_of(path: &Path) -> &Path {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    let own = device(path);
    let same = path.ancestors().take_while(|folder| device(folder) == own);
    same.last().unwrap_or(path)
}

/// What the system bus says of the daemon and of polkit.
#[derive(Debug)]
struct Names {
    daemon: bool,
    polkit: bool,
}

fn bus(machine: &Machine) -> Vec<Finding> {
    let names = converse(async {
        let connection = connection::Builder::system()
            .build()
            .await
            .map_err(rtswap_dbus::Error::from)?;
        let asked = async {
            let bus = DBusProxy::new(&connection).await?;
            let activatable = bus.list_activatable_names().await?;
            zbus::Result::Ok(Names {
                daemon: bus.name_has_owner(BUS_NAME.try_into()?).await?,
                polkit: activatable.iter().any(|name| name.as_str() == POLKIT)
                    || bus.name_has_owner(POLKIT.try_into()?).await?,
            })
        };
        Ok(asked.await.map_err(rtswap_dbus::Error::from)?)
    });
    judge_bus(machine, names)
}

fn judge_bus(machine: &Machine, names: Result<Names, Failure>) -> Vec<Finding> {
    let names = match names {
        Ok(names) => names,
        Err(failure) => {
            return vec![Finding::fault(
                "bus",
                format!("the system bus cannot be asked: {failure}"),
                "sudo systemctl start dbus",
            )];
        }
    };
    let has_policy = POLICIES
        .iter()
        .any(|folder| machine.has(&format!("{folder}/{POLICY}")));
    let mut findings = Vec::new();
    if !has_policy {
        findings.push(Finding::fault(
            "bus-policy",
            format!(
                "there is no {}/{POLICY}: the bus does not let rtswapd have its name",
                POLICIES[0]
            ),
            "sudo apt install --reinstall rtswap && sudo systemctl restart rtswapd",
        ));
    } else if names.daemon {
        findings.push(Finding::ok(
            "bus",
            format!("rtswapd is {BUS_NAME} on the system bus"),
        ));
    } else {
        findings.push(Finding::fault(
            "bus",
            format!("{BUS_NAME} is not on the system bus: busctl and polkit do not reach rtswapd"),
            "sudo systemctl restart rtswapd",
        ));
    }
    findings.push(match (names.polkit, machine.has(ACTIONS)) {
        (true, true) => Finding::ok("polkit", "it decides who may register realtime tasks"),
        (true, false) => Finding::warning(
            "polkit",
            format!("there is no {ACTIONS}: nobody but root may register realtime tasks"),
            "sudo apt install --reinstall rtswap",
        ),
        (false, _) => Finding::warning(
            "polkit",
            "it is not installed: nobody but root may register realtime tasks",
            "sudo apt install polkitd",
        ),
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    #[test]
    fn a_second_daemon_is_a_fault_and_a_child_that_asks_is_none() {
        let (_folder, machine) = with(&[
            ("/proc/20/comm", "rtswapd\n"),
            ("/proc/20/cmdline", "rtswapd\0"),
            ("/proc/21/comm", "rtswapd\n"),
            ("/proc/21/cmdline", "rtswapd\0--ask-driver\0"),
        ]);
        assert_eq!(alone(&machine).level, Level::Ok);
        let (_folder, machine) = with(&[
            ("/proc/20/comm", "rtswapd\n"),
            ("/proc/20/cmdline", "rtswapd\0"),
            ("/proc/9/comm", "rtswapd\n"),
            ("/proc/9/cmdline", "rtswapd\0--runtime-dir\0/tmp/x\0"),
            ("/run/rtswap/lock", "20\n"),
        ]);
        let finding = alone(&machine);
        assert_eq!(finding.level, Level::Fault);
        assert!(
            finding.found.starts_with("2 rtswapd run (processes 9, 20)"),
            "{finding:?}"
        );
        let mend = finding.mend.unwrap();
        assert!(mend.ends_with("process 20: sudo kill 9"), "{mend}");
    }

    #[test]
    fn what_the_bus_lacks_is_said() {
        let levels = |files: &[(&str, &str)], daemon, polkit| -> Vec<_> {
            let (_folder, machine) = with(files);
            let findings = judge_bus(&machine, Ok(Names { daemon, polkit })).into_iter();
            findings.map(|it| (it.check, it.level)).collect()
        };
        let policy = ("/usr/share/dbus-1/system.d/org.rtswap.conf", "");
        let action = (ACTIONS, "");
        assert_eq!(
            levels(&[policy, action], true, true),
            [("bus", Level::Ok), ("polkit", Level::Ok)]
        );
        assert_eq!(
            levels(&[], false, false),
            [("bus-policy", Level::Fault), ("polkit", Level::Warning)]
        );
        assert_eq!(
            levels(&[policy], false, true),
            [("bus", Level::Fault), ("polkit", Level::Warning)]
        );
    }

    #[test]
    fn another_version_is_a_warning_and_silence_a_fault() {
        let own = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(answers(&Ok(own), None).level, Level::Ok);
        assert_eq!(answers(&Ok("0.0.0".into()), None).level, Level::Warning);
        let silent = answers(&Err(Failure::No), Some(Path::new("/tmp/x")));
        assert_eq!(silent.level, Level::Fault);
        assert_eq!(silent.mend.as_deref(), Some("rtswapd --runtime-dir /tmp/x"));
    }
}
