//! The machine on which the tests run.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// The memory that programs can have without swapping to disk, in bytes, as the kernel estimates it.
pub fn available_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("the kernel tells what is available")? << 10)
}

/// A cgroup with a limit of memory. Removed when it is dropped, once its processes have ended.
pub struct MemoryCgroup {
    folder: PathBuf,
    is_first_version: bool,
}

impl MemoryCgroup {
    /// Makes one of this name with a limit of so many bytes. None, with a word to people, where that cannot be had.
    pub fn make(name: &str, limit: u64) -> Option<Self> {
        let this = Self::root().map(|(root, is_first_version)| Self {
            folder: root.join(format!("rtswap-{name}-{}", std::process::id())),
            is_first_version,
        });
        let made = this.and_then(|this| {
            fs::create_dir(&this.folder)?;
            let limit = limit.to_string();
            if this.is_first_version {
                fs::write(this.folder.join("memory.limit_in_bytes"), limit)?;
            } else {
                fs::write(this.folder.join("memory.max"), limit)?;
                fs::write(this.folder.join("memory.swap.max"), "0")?;
            }
            Ok(this)
        });
        made.inspect_err(|error| {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {name}: no cgroup with a limit of memory can be made: {error}"
            );
        })
        .ok()
    }

    /// Where the memory controller of version 1 or 2 is mounted.
    fn root() -> io::Result<(PathBuf, bool)> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let find = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let fields: Vec<_> = line.split(' ').collect();
                let is_it = fields[2] == kind && fields[3].split(',').any(|it| it == option);
                is_it.then(|| PathBuf::from(fields[1]))
            })
        };
        if let Some(root) = find("cgroup", "memory") {
            return Ok((root, true));
        }
        let root = find("cgroup2", "rw").ok_or(io::ErrorKind::NotFound)?;
        // Fails where the controller is not there.
        fs::write(root.join("cgroup.subtree_control"), "+memory")?;
        Ok((root, false))
    }

    /// Its folder in the file system of cgroups.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Has `command` start in it.
    pub fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("sh");
        entering.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        entering.arg(self.folder.join("cgroup.procs"));
        entering.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entering.env(name, value),
                None => entering.env_remove(name),
            };
        }
        entering
    }

    /// How many processes in it the kernel has killed because of its limit.
    pub fn killed(&self) -> Result<u64> {
        let name = if self.is_first_version {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        let text = fs::read_to_string(self.folder.join(name))?;
        let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(killed.context("the kernel counts them")?.parse()?)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // What has just ended may be counted in it for a moment.
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}
