//! Command lines as a user types them: by the names that the packages give the programs, with the examples at hand, and
//! with a bus that busctl takes for the system's.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::machine::Machine;
use crate::program::{Program, wait_until};

/// Everybody may do everything: what the shipped policy allows is tested in daemon/tests/bus.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>@ADDRESS@</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"#;

impl Machine {
    /// `sh -c script`, in the machine's folder.
    pub fn shell(&self, script: &str) -> Result<Command> {
        let programs = self.path("bin");
        if !programs.exists() {
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            fs::create_dir(&programs)?;
            for name in ["rtswapctl", "rtswapd"] {
                symlink(self.binary(name), programs.join(name))?;
            }
            symlink(self.dnn(), programs.join("rtswap-dnn"))?;
            let simgpu = sources.join("packaging/simgpu/rtswap-simgpu");
            symlink(simgpu, programs.join("rtswap-simgpu"))?;
            fs::create_dir(self.path("examples"))?;
            for name in [
                "taskset.toml",
                "refused.toml",
                "larger-than-gpu.toml",
                "bert-base.json.gz",
            ] {
                let example = Path::new("examples").join(name);
                fs::copy(sources.join(&example), self.path("").join(&example))?;
            }
            // Graphs, by the path that the documents have, and as a reader records one.
            let graphs = Path::new("tests/eval/graphs");
            fs::create_dir_all(self.path("tests/eval"))?;
            symlink(sources.join(graphs), self.path("").join(graphs))?;
            symlink(graphs.join("vgg-16.json.gz"), self.path("vgg-16.json.gz"))?;
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.command("sh");
        command
            .args(["-c", script])
            .current_dir(self.path(""))
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.bus_address());
        Ok(command)
    }

    /// Starts a bus, which a daemon that is started later joins; `None` where there is no dbus-daemon or no busctl, which is said.
    pub fn bus(&self) -> Result<Option<Program>> {
        for (program, package) in [("dbus-daemon", "dbus-daemon"), ("busctl", "systemd")] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!(
                    "SKIPPED what needs a bus: there is no {program} (apt install {package})"
                );
                return Ok(None);
            }
        }
        let config = self.path("bus.conf");
        fs::write(&config, BUS.replace("@ADDRESS@", &self.bus_address()))?;
        let mut command = Command::new("dbus-daemon");
        command.arg("--config-file").arg(config);
        command.args(["--nofork", "--nopidfile"]);
        let bus = Program::start(command)?;
        wait_until("the bus listens", Duration::from_secs(10), || {
            UnixStream::connect(self.path("bus")).is_ok()
        })?;
        Ok(Some(bus))
    }

    /// Where the machine's bus listens.
    pub(crate) fn bus_address(&self) -> String {
        format!("unix:path={}", self.path("bus").display())
    }
}
