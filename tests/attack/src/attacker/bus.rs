//! D-Bus on the control socket: by a client that speaks it well, and by one that does not.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Result;
use rtswap_dbus::{Error, Manager1Proxy};
use tokio::runtime::Runtime;
use zbus::{Connection, OwnedObjectPath, Variant};

use super::Attacker;

/// Options of a registration.
pub(crate) type Options<'a> = HashMap<&'a str, Variant<'a>>;

/// A well-spoken client.
pub(crate) struct Bus {
    pub runtime: Runtime,
    pub connection: Connection,
    manager: Manager1Proxy<'static>,
}

impl Attacker {
    /// Connects well.
    pub(crate) fn bus(&self) -> Result<Bus> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let folder = self.runtime_dir();
        let (connection, manager) = runtime.block_on(async {
            let connection = rtswap_dbus::connect(&folder).await?;
            let manager = Manager1Proxy::new(&connection).await?;
            anyhow::Ok((connection, manager))
        })?;
        Ok(Bus {
            runtime,
            connection,
            manager,
        })
    }

    /// Connects and says nothing yet.
    pub(crate) fn raw_bus(&self) -> Result<UnixStream> {
        let stream = UnixStream::connect(self.runtime_dir().join("control.sock"))?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.set_write_timeout(Some(Duration::from_millis(300)))?;
        Ok(stream)
    }

    /// Connects and authenticates by hand.
    pub(crate) fn greeted_bus(&self) -> Result<UnixStream> {
        let mut stream = self.raw_bus()?;
        let mut user = String::new();
        for digit in self.order.user.to_string().bytes() {
            write!(user, "{digit:02x}")?;
        }
        stream.write_all(
            format!("\0AUTH EXTERNAL {user}\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n").as_bytes(),
        )?;
        let mut answer = [0; 256];
        // What it says does not matter: it is the beginning of what is tried.
        let _ = stream.read(&mut answer)?;
        Ok(stream)
    }

    /// Registers and tells what came of it.
    pub(crate) fn register(
        &mut self,
        bus: &Bus,
        name: &str,
        options: Options<'_>,
    ) -> Result<OwnedObjectPath, Error> {
        let tried = bus.runtime.block_on(bus.manager.register(name, options));
        self.tell(&tried);
        tried
    }
}

impl Bus {
    /// The manager.
    pub(crate) fn manager(&self) -> &Manager1Proxy<'static> {
        &self.manager
    }

    /// Everything that can be read, as text.
    pub(crate) fn everything(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let mut texts = Vec::new();
            let calls = [
                ("org.freedesktop.DBus.ObjectManager", "GetManagedObjects"),
                ("org.freedesktop.DBus.Introspectable", "Introspect"),
                (rtswap_dbus::MANAGER, "ListProcesses"),
                (rtswap_dbus::MANAGER, "Plan"),
            ];
            for (interface, method) in calls {
                texts.push(self.text("/org/rtswap", interface, method).await);
            }
            for id in 1..40 {
                let path = rtswap_dbus::task_path(id);
                let read = self.connection.call_method(
                    Option::<&str>::None,
                    path.as_str(),
                    Some("org.freedesktop.DBus.Properties"),
                    "GetAll",
                    &(rtswap_dbus::TASK,),
                );
                texts.push(said(read.await));
            }
            texts
        })
    }

    async fn text(&self, path: &str, interface: &str, method: &str) -> String {
        let to = Option::<&str>::None;
        let read = self
            .connection
            .call_method(to, path, Some(interface), method, &());
        said(read.await)
    }
}

/// What stands in an answer or in a refusal; strings of D-Bus lie in it as they are.
fn said(read: zbus::Result<zbus::Message>) -> String {
    match read {
        Ok(message) => String::from_utf8_lossy(message.body().data()).into_owned(),
        Err(error) => error.to_string(),
    }
}

/// An option for each pair.
pub(crate) fn options<'a>(pairs: impl IntoIterator<Item = (&'a str, Variant<'a>)>) -> Options<'a> {
    pairs.into_iter().collect()
}
