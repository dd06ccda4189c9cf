//! The root file system: a small Debian 12 by mmdebstrap, made once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const SUITE: &str = "bookworm";
/// What the packages recommend, and what the checks need besides.
const PACKAGES: &str =
    "systemd,systemd-sysv,dbus,polkitd,python3-dbus,libsystemd-dev,procps,sudo,tmux";
/// Units that are for real hardware, terminals or the network.
const MASKED: &str = "console-getty.service getty.target systemd-modules-load.service modprobe@.service \
    sys-kernel-debug.mount sys-kernel-config.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount \
    sys-fs-fuse-connections.mount systemd-journald-audit.socket systemd-networkd.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer";

/// The one in `cache`, made if it is not there or was made by another recipe.
pub(crate) fn ready(cache: &Path) -> Result<PathBuf> {
    let root = cache.join(SUITE);
    let note = cache.join("recipe");
    let recipe = format!("{SUITE}\n{PACKAGES}\n{MASKED}\n{}", hooks().join("\n"));
    if root.is_dir() && fs::read_to_string(&note).is_ok_and(|made| made == recipe) {
        return Ok(root);
    }
    fs::create_dir_all(cache).with_context(|| cache.display().to_string())?;
    let part = cache.join("part");
    remove(&root)?;
    remove(&part)?;
    eprintln!("making a {SUITE} root file system in {}", root.display());
    // A mirror may fail once.
    if let Err(error) = make(cache) {
        eprintln!("{error:#}; once more");
        remove(&part)?;
        make(cache)?;
    }
    fs::rename(&part, &root)?;
    fs::write(note, recipe)?;
    Ok(root)
}

fn remove(stale: &Path) -> Result<()> {
    if stale.exists() {
        fs::remove_dir_all(stale).with_context(|| stale.display().to_string())?;
    }
    Ok(())
}

fn hooks() -> [String; 3] {
    [
        "chroot \"$1\" useradd --create-home tester && chroot \"$1\" useradd --create-home other".into(),
        format!(
            "mkdir -p \"$1/etc/systemd/system\" && cd \"$1/etc/systemd/system\" && for unit in {MASKED}; do ln -sf /dev/null \"$unit\"; done"
        ),
        "printf '127.0.0.1 localhost rtswap-test\\n' > \"$1/etc/hosts\" && echo rtswap-test > \"$1/etc/hostname\"".into(),
    ]
}

fn make(cache: &Path) -> Result<()> {
    let options = cache.join("apt.conf");
    fs::write(&options, apt_options()?)?;
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--mode=root", "--variant=minbase"])
        .arg(format!("--include={PACKAGES}"))
        .arg(format!("--aptopt={}", options.display()));
    for hook in hooks() {
        command.arg(format!("--customize-hook={hook}"));
    }
    command.arg(SUITE).arg(cache.join("part"));
    command.args(sources()?);
    // A mirror may be slow without end.
    ensure!(
        bounded(&command, 240)?,
        "mmdebstrap failed; its words are above"
    );
    Ok(())
}

/// How this machine's apt reaches its archives, proxies and all. apt's own user may not be able to read a checkout in
/// somebody's home, so that it works as root.
fn apt_options() -> Result<String> {
    let dump = Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output()
        .context("apt-config")?;
    let text = String::from_utf8_lossy(&dump.stdout);
    let mut options: String = text
        .lines()
        .filter(|line| !line.starts_with("Acquire::IndexTargets") && !line.ends_with(" \"\";"))
        .fold(String::new(), |text, line| text + line + "\n");
    options.push_str("APT::Sandbox::User \"root\";\n");
    Ok(options)
}

/// This machine's own archives, where they have the suite; mmdebstrap knows the public ones.
fn sources() -> Result<Vec<PathBuf>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        for entry in folder {
            files.push(entry?.path());
        }
    }
    files.retain(|path| {
        let known = path
            .extension()
            .is_some_and(|extension| extension == "list" || extension == "sources");
        let text = fs::read_to_string(path).unwrap_or_default();
        let serves = |line: &str| line.contains(SUITE) && !line.trim_start().starts_with('#');
        known && text.contains("debian") && text.lines().any(serves)
    });
    Ok(files)
}

/// Whether it ends well within `seconds`. timeout(1) ends it, and what it started, otherwise, or when we end.
fn bounded(command: &Command, seconds: u32) -> Result<bool> {
    let status = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "TERM",
            "timeout",
            "--kill-after=10",
            &seconds.to_string(),
        ])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .status();
    Ok(status.context("setpriv")?.success())
}
