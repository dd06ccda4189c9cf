//! A private daemon: the machine's `rtswapd` with a folder, a configuration and tasks of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rtswap_dbus::connect::RUNTIME_DIR_VARIABLE;
use rtswap_dbus::objects::{self, Objects};
use rtswap_dbus::{Manager1Proxy, TaskProperties};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use zbus::{Connection, OwnedObjectPath};

use super::TrialError;
use super::child::Program;
use super::interrupt::Interrupt;
use crate::driver;

/// How long it may take to serve: it loads the GPU's driver.
const START: Duration = Duration::from_secs(30);

/// A running daemon that nobody else knows.
#[derive(Debug)]
pub(crate) struct PrivateDaemon {
    // In the order in which they go.
    connection: Connection,
    runtime: Runtime,
    program: Option<Program>,
    folder: TempDir,
}

impl PrivateDaemon {
    /// Starts one with `configuration`, as rtswapd.toml has it, and returns once it serves.
    pub(crate) fn start(configuration: &str, interrupt: &Interrupt) -> Result<Self, TrialError> {
        let folder = tempfile::Builder::new().prefix("rtswap-trial-").tempdir()?;
        let (file, run) = (
            folder.path().join("rtswapd.toml"),
            folder.path().join("run"),
        );
        fs::write(&file, configuration)?;
        fs::create_dir(&run)?;
        let mut command = Command::new(driver::daemon());
        command
            .arg("--end-with-parent")
            .arg("--config")
            .arg(&file)
            .arg("--runtime-dir")
            .arg(&run)
            .args(["--bus", "none", "--log", "warn"])
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            .env_remove("LD_PRELOAD")
            .env_remove("STATE_DIRECTORY")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("JOURNAL_STREAM");
        let mut program = Program::start(command)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connection = interrupt.wait(
            || "a daemon of our own serves".to_owned(),
            START,
            || {
                program.must_run()?;
                Ok(runtime.block_on(rtswap_dbus::connect::connect(&run)).ok())
            },
        )?;
        Ok(Self {
            connection,
            runtime,
            program: Some(program),
            folder,
        })
    }

    fn runtime_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// `command` with the agent of this daemon preloaded.
    pub(crate) fn manage(&self, mut command: Command, preload: &OsString) -> Command {
        command
            .env("LD_PRELOAD", preload)
            .env(RUNTIME_DIR_VARIABLE, self.runtime_dir());
        command
    }

    /// All that it serves now.
    pub(crate) fn objects(&self) -> Result<Objects, TrialError> {
        Ok(self.runtime.block_on(objects::list(&self.connection))?)
    }

    /// The task of a process, once there is one.
    pub(crate) fn task_of(
        &self,
        pid: u32,
    ) -> Result<Option<(OwnedObjectPath, TaskProperties)>, TrialError> {
        let mut tasks = self.objects()?.tasks.into_iter();
        Ok(tasks.find(|(_, task)| task.process_ids.contains(&pid)))
    }

    /// Calls a method of the manager.
    pub(crate) fn manager<T>(
        &self,
        call: impl AsyncFnOnce(&Manager1Proxy<'_>) -> Result<T, rtswap_dbus::Error>,
    ) -> Result<T, TrialError> {
        let called = self.runtime.block_on(async {
            let manager = Manager1Proxy::new(&self.connection).await?;
            call(&manager).await
        });
        Ok(called?)
    }

    /// The folder of its sockets.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        if let Some(program) = self.program.take() {
            program.stop();
        }
    }
}
