//! Programs that are started, shown, and must succeed.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::{StatVfsMountFlags, statvfs};

/// Files in memory.
const MEMORY: &str = "/dev/shm";
/// Room that the largest of the simulated GPUs, with all processes on it, does not fill. A
/// container's folder is often of 64 MiB, and who writes beyond them is killed.
const ROOM_BYTES: u64 = 4 << 30;

/// A program to run in the foreground.
pub(crate) struct Run {
    command: Command,
    shown: String,
}

impl Run {
    /// `program`, in `folder`.
    pub(crate) fn new(program: impl Into<OsString>, folder: &Path) -> Self {
        let program = program.into();
        let mut command = Command::new(&program);
        command.current_dir(folder);
        let name = Path::new(&program).file_name().unwrap_or(&program);
        Self {
            shown: name.to_string_lossy().into_owned(),
            command,
        }
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, arguments: &[impl AsRef<OsStr>]) -> Self {
        for argument in arguments {
            self.shown.push(' ');
            self.shown.push_str(&argument.as_ref().to_string_lossy());
        }
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        self.shown = format!("{name}={:?} {}", value.to_string_lossy(), self.shown);
        self.command.env(name, value);
        self
    }

    /// Keeps its temporary files in memory, where they have room and programs among them may run:
    /// the simulated GPUs' memory and the daemons' states are files, and who writes one waits for a
    /// disk that stalls.
    pub(crate) fn files_in_memory(self) -> Self {
        let fits = statvfs(MEMORY).is_ok_and(|folder| {
            let may_run = !folder.f_flag.contains(StatVfsMountFlags::NOEXEC);
            may_run && folder.f_bavail.saturating_mul(folder.f_frsize) >= ROOM_BYTES
        });
        if fits {
            self.env("TMPDIR", MEMORY)
        } else {
            self
        }
    }

    /// Shows and runs it; an error unless it exits with 0.
    pub(crate) fn succeed(mut self) -> Result<()> {
        eprintln!("$ {}", self.shown);
        let status = self.command.status();
        let status = status.with_context(|| format!("cannot start `{}`", self.shown))?;
        ensure!(status.success(), "`{}` ended with {status}", self.shown);
        Ok(())
    }

    /// Shows and runs it; what it prints. An error unless it exits with 0.
    pub(crate) fn output(self) -> Result<String> {
        eprintln!("$ {}", self.shown);
        self.read()
    }

    /// As [`Run::output`], without showing it.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot start `{}`", self.shown))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "`{}` ended with {}: {text}",
            self.shown,
            output.status
        );
        Ok(text)
    }

    /// Whether it runs and exits with 0; silent.
    pub(crate) fn succeeds_quietly(mut self) -> bool {
        let command = self.command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        Run::new("sh", Path::new("/")).args(&["-c", script])
    }

    #[test]
    fn failure_names_the_command_and_its_end() {
        let error = shell("exit 3").succeed().unwrap_err().to_string();
        assert!(
            error.contains("sh -c exit 3") && error.contains("exit status: 3"),
            "{error}"
        );
        assert!(shell("exit 3").output().is_err());
        assert!(!shell("exit 3").succeeds_quietly());
    }

    #[test]
    fn success_gives_the_output() {
        assert_eq!(
            shell("printf $GIVEN").env("GIVEN", "x").output().unwrap(),
            "x"
        );
        assert!(
            !Run::new("/nonexistent/program", Path::new("/"))
                .args(&["a"])
                .succeeds_quietly()
        );
    }
}
