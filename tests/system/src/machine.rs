//! A booted system in namespaces of its own: all that it writes is in memory, and all of it ends with its PID 1.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// How long systemd may take to boot.
const BOOT: Duration = Duration::from_mins(1);
/// How long one command in it may take, in seconds; programs beside one that is stopped for a minute take longest.
const COMMAND: u32 = 150;
const POLL: Duration = Duration::from_millis(100);

/// The system. Dropping it kills it, and leaves nothing behind.
pub(crate) struct Machine {
    /// Outside, the parent of the system's PID 1.
    outer: Child,
    /// PID 1, as it is numbered outside.
    init: u32,
    folder: PathBuf,
    cgroup: PathBuf,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Done {
    /// Its output, if it exited with 0.
    pub(crate) fn ok(self) -> Result<String> {
        ensure!(
            self.code == Some(0),
            "exit code {:?}: {}{}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self.stdout)
    }

    /// Its output as JSON.
    pub(crate) fn json(self) -> Result<Value> {
        let text = self.ok()?;
        serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))
    }
}

/// Where cgroup v2 is mounted on this machine.
pub(crate) fn cgroup_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

impl Machine {
    /// Boots the root file system `root`, which sees the folder `image` as /srv/image; `work` is a folder for this run alone.
    pub(crate) fn boot(root: &Path, image: Option<&Path>, work: &Path) -> Result<Self> {
        let name = format!("rtswap-system-{}", std::process::id());
        let cgroup = cgroup_mount()
            .context("no cgroup v2 is mounted")?
            .join(&name);
        let folder = work.join(name);
        for part in ["mounts", "shared"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::create_dir(&cgroup).with_context(|| cgroup.display().to_string())?;
        let console = folder.join("console");
        File::create(&console)?;
        // It enters its cgroup before the namespace of cgroups is made, which takes that for its root. It ends when we do.
        let outer = Command::new("sh")
            .args(["-c", "echo $$ > \"$0/cgroup.procs\"; exec \"$@\""])
            .arg(&cgroup)
            .args(["setpriv", "--pdeathsig", "KILL", "unshare"])
            .args(["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--net"])
            .args([
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                include_str!("boot.sh"),
                "boot.sh",
            ])
            .args([
                root,
                &folder.join("mounts"),
                &folder.join("shared"),
                &console,
            ])
            .args(image)
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("boot"))?)
            .stderr(File::create(folder.join("boot.err"))?)
            .spawn()
            .context("sh")?;
        // From here on dropping it cleans up.
        let mut machine = Self {
            outer,
            init: 0,
            folder,
            cgroup,
        };
        machine.wait_for_boot()?;
        Ok(machine)
    }

    fn wait_for_boot(&mut self) -> Result<()> {
        let until = Instant::now() + BOOT;
        while Instant::now() < until {
            if let Some(status) = self.outer.try_wait()? {
                let said = fs::read_to_string(self.folder.join("boot.err")).unwrap_or_default();
                bail!("the system did not boot, {status}: {said}");
            }
            if self.init == 0 {
                self.init = self.find_init();
            } else if let Ok(done) = self.run(&["systemctl", "is-system-running"])
                && ["running\n", "degraded\n"].contains(&done.stdout.as_str())
            {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        let console = fs::read_to_string(self.folder.join("console")).unwrap_or_default();
        bail!("the system did not boot in {BOOT:?}: {console}")
    }

    /// The only child of unshare, once it is systemd; 0 until then.
    fn find_init(&self) -> u32 {
        let outer = self.outer.id();
        let children = format!("/proc/{outer}/task/{outer}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let Some(child) = children.split_whitespace().next() else {
            return 0;
        };
        match fs::read_to_string(format!("/proc/{child}/comm")) {
            Ok(name) if name == "systemd\n" => child.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// The folder that the system sees as /srv/shared.
    pub(crate) fn shared(&self) -> PathBuf {
        self.folder.join("shared")
    }

    /// A command in the system, as root, to be started by the caller.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.to_string()])
            .args([
                "--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup", "--",
            ])
            .args(["env", "-i", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"])
            .args(["DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER="])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["timeout", "--kill-after=5", &COMMAND.to_string()])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// As [`Self::command`], as an ordinary user.
    pub(crate) fn command_as(&self, user: &str, arguments: &[&str]) -> Command {
        let home = format!("HOME=/home/{user}");
        let who = [
            "setpriv",
            "--reuid",
            user,
            "--regid",
            user,
            "--init-groups",
            "env",
            "--chdir=/",
            &home,
        ];
        self.command(&[&who, arguments].concat())
    }

    /// Runs a command as root.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Done> {
        finish(self.command(arguments))
    }

    /// Runs a command as an ordinary user.
    pub(crate) fn run_as(&self, user: &str, arguments: &[&str]) -> Result<Done> {
        finish(self.command_as(user, arguments))
    }

    /// Runs a shell's words as root.
    pub(crate) fn shell(&self, script: &str) -> Result<Done> {
        self.run(&["sh", "-euc", script])
    }

    /// Asks until `holds` says yes.
    pub(crate) fn wait(
        &self,
        what: &str,
        bound: Duration,
        mut holds: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let until = Instant::now() + bound;
        loop {
            let last = holds(self);
            if matches!(last, Ok(true)) {
                return Ok(());
            }
            if Instant::now() >= until {
                last.with_context(|| format!("{what}: not within {bound:?}"))?;
                bail!("{what}: not within {bound:?}");
            }
            thread::sleep(POLL);
        }
    }

    /// What the daemon and the bus logged last, for a check that failed.
    pub(crate) fn journal(&self) -> String {
        let mut text = String::new();
        for unit in ["rtswapd", "polkit"] {
            let arguments = [
                "journalctl",
                "--no-pager",
                "-o",
                "short-monotonic",
                "-n",
                "20",
                "-u",
                unit,
            ];
            let said = self.run(&arguments).map(|done| done.stdout);
            let _ = writeln!(text, "{}", said.unwrap_or_default());
        }
        text
    }
}

fn finish(mut command: Command) -> Result<Done> {
    let output = command.output().context("nsenter")?;
    Ok(Done {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Nothing here can be told to anybody who could do better. With unshare its child dies, that system's PID 1, and
        // so all its processes and mounts.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
        remove(&self.cgroup);
        remove(&self.folder);
    }
}

/// Removes a folder or a cgroup, as soon as the last of a dying system's processes has left it.
pub(crate) fn remove(path: &Path) {
    let until = Instant::now() + Duration::from_secs(5);
    // A cgroup's files cannot be removed, and go with it.
    while remove_cgroups(path).is_err()
        && fs::remove_dir_all(path).is_err()
        && Instant::now() < until
    {
        thread::sleep(POLL);
    }
}

/// Removes a cgroup and those below it; fails while a process is left in one.
fn remove_cgroups(cgroup: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroups(&entry.path())?;
        }
    }
    fs::remove_dir(cgroup)
}
