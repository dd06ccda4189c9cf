//! A bus of the test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::LazyLock;

use zbus::Connection;
use zbus::connection::Builder;

use crate::common::{BOUND, Daemon, Home, ONE_GPU, skipped, wait_for};

/// As the system bus: nothing is allowed that a service's own policy does not allow.
const CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=@SOCKET@</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  <policy user="root">
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
  </policy>
  <include>@POLICY@</include>
  <limit name="max_replies_per_connection">2000</limit>
</busconfig>
"#;

/// A bus, ended when dropped.
pub(crate) struct Bus {
    socket: PathBuf,
    config: PathBuf,
    child: Option<Child>,
}

impl Bus {
    /// Starts one in the folder of `home`. None where there cannot be one, which is said.
    pub(crate) fn start(home: &Home) -> Option<Self> {
        static REASON: LazyLock<Option<&str>> = LazyLock::new(|| {
            if Command::new("dbus-daemon")
                .arg("--version")
                .output()
                .is_err()
            {
                return Some("there is no dbus-daemon (apt install dbus-daemon)");
            }
            let root = rustix::process::geteuid().is_root();
            (!root).then_some("the shipped policy gives the name to root alone")
        });
        if let Some(reason) = *REASON {
            skipped(reason);
            return None;
        }
        let socket = home.path().join("bus");
        let policy = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../packaging/dbus/org.rtswap.conf"
        );
        let text = CONFIG.replace("@SOCKET@", socket.to_str().unwrap());
        let config = home.path().join("bus.conf");
        fs::write(&config, text.replace("@POLICY@", policy)).unwrap();
        let child = None;
        let mut bus = Self {
            socket,
            config,
            child,
        };
        bus.again();
        Some(bus)
    }

    /// Starts it, once more perhaps.
    pub(crate) fn again(&mut self) {
        let log = fs::File::create(self.config.with_file_name("bus.log")).unwrap();
        let mut command = Command::new("dbus-daemon");
        command.arg("--config-file").arg(&self.config);
        command.args(["--nofork", "--nopidfile"]).stderr(log);
        self.child = Some(command.spawn().unwrap());
        wait_for("the bus", || UnixStream::connect(&self.socket).ok());
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // A dead bus leaves it.
        let _ = fs::remove_file(&self.socket);
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }

    /// A client, of whatever user this thread is.
    pub(crate) async fn connect(&self) -> Connection {
        let stream = UnixStream::connect(&self.socket).unwrap();
        let builder = Builder::unix_stream(stream).method_timeout(BOUND);
        builder.build().await.unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A daemon on the system bus, which is `bus`.
pub(crate) fn on_system_bus(home: &Home, bus: &Bus) -> Daemon {
    let address = bus.address();
    home.daemon_with(|command| {
        command.args(["--bus", "system"]);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", address);
    })
}

/// A bus with a daemon on it that everybody can reach.
pub(crate) fn joined() -> Option<(Home, Bus, Daemon)> {
    joined_with(ONE_GPU)
}

/// A calibration of that GPU, with chunks of 4 MiB.
pub(crate) fn calibration(uuid: &str) -> String {
    let cost = "base_us = 500\nper_chunk_us = 800\ngib_per_s = 1\n";
    format!(
        "version = 1\ngpu = \"{uuid}\"\nmeasured = 2026-11-27T13:00:00Z\nchunk = \"4MiB\"\nduplex = 0.9\n\
         [swap_cost.out]\n{cost}[swap_cost.in]\n{cost}"
    )
}

/// The same with another configuration.
pub(crate) fn joined_with(configuration: &str) -> Option<(Home, Bus, Daemon)> {
    let home = Home::new(configuration);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let bus = Bus::start(&home)?;
    let daemon = on_system_bus(&home, &bus);
    wait_for("the name", || {
        home.log().contains("as org.rtswap").then_some(())
    });
    Some((home, bus, daemon))
}
