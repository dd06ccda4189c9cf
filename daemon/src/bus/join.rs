//! The bus beside the control socket: joined under one name, and joined again after it went away.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use zbus::connection::Builder;
use zbus::fdo::{self, DBusProxy, RequestNameFlags};
use zbus::names::BusName;
use zbus::{Address, Connection};

use super::Shared;
use super::attend::{Attended, End};
use super::auth::Door;

/// The time between two attempts to join: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The longest time in which a bus must accept the connection.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The bus to join beside the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bus {
    /// None: the control socket alone.
    None,
    /// The system bus, on which polkit answers.
    System,
    /// The user's session bus.
    Session,
    /// The bus at this D-Bus address.
    Address(Address),
}

impl FromStr for Bus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "system" => Ok(Self::System),
            "session" => Ok(Self::Session),
            _ => Address::from_str(text).map(Self::Address).map_err(|error| {
                format!(
                    "say system, session, none or an address such as unix:path=/run/bus ({error})"
                )
            }),
        }
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no bus"),
            Self::System => f.write_str("the system bus"),
            Self::Session => f.write_str("the session bus"),
            Self::Address(address) => write!(f, "the bus at {address}"),
        }
    }
}

/// Why a bus is not joined.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum JoinError {
    /// Another connection owns the name on `bus`: that of process `pid`, if the bus tells.
    #[error(
        "{} is taken on {bus}{}; end who has it, or start rtswapd with --bus none",
        rtswap_dbus::BUS_NAME, owner_text(*pid)
    )]
    Taken { bus: Bus, pid: Option<u32> },
    /// The policy of `bus` forbids the name; `cause` is the bus's answer.
    #[error(
        "{bus} does not let this user have the name {}: {cause}; its policy is in \
         /usr/share/dbus-1/system.d/org.rtswap.conf",
        rtswap_dbus::BUS_NAME
    )]
    Forbidden { bus: Bus, cause: Box<fdo::Error> },
    /// `bus` cannot be reached, because of `cause`.
    #[error("cannot join {bus}: {cause}")]
    Unreachable { bus: Bus, cause: zbus::Error },
}

fn owner_text(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}"))
        .unwrap_or_default()
}

/// A bus that is joined.
#[derive(Debug)]
pub struct Joined(Attended);

/// Joins `bus`: every object is there before the name is.
pub async fn join(bus: &Bus, shared: &Shared) -> Result<Option<Joined>, JoinError> {
    let unreachable = |cause| JoinError::Unreachable {
        bus: bus.clone(),
        cause,
    };
    let (builder, polkit) = match bus {
        Bus::None => return Ok(None),
        Bus::System => (Builder::system(), true),
        Bus::Session => (Builder::session(), false),
        Bus::Address(address) => (Builder::address(address.clone()), false),
    };
    let attended = Attended::build(builder, Door::Bus { polkit }, shared, None);
    let silent = || zbus::Error::Handshake("the bus does not answer".into());
    let attended = tokio::time::timeout(HANDSHAKE, attended).await;
    let attended = attended
        .map_err(|_| unreachable(silent()))?
        .map_err(unreachable)?;
    let connection = &attended.connection;
    let flags = RequestNameFlags::DO_NOT_QUEUE;
    let named = connection.request_name_with_flags(rtswap_dbus::BUS_NAME, flags);
    match named.await {
        Ok(_) => {
            tracing::info!("serving on {bus} as {}", rtswap_dbus::BUS_NAME);
            Ok(Some(Joined(attended)))
        }
        Err(zbus::Error::NameTaken) => Err(JoinError::Taken {
            bus: bus.clone(),
            pid: owner(connection).await,
        }),
        Err(zbus::Error::FDO(cause)) if matches!(*cause, fdo::Error::AccessDenied(_)) => {
            Err(JoinError::Forbidden {
                bus: bus.clone(),
                cause,
            })
        }
        Err(cause) => Err(unreachable(cause)),
    }
}

/// Stays on `bus`, where `joined` is what came of the first attempt, until it is dropped. A bus
/// that goes away is joined again when it is back; the control socket goes on meanwhile.
pub async fn stay(bus: Bus, mut joined: Option<Joined>, shared: Shared) {
    let (first, most) = PAUSE;
    let mut pause = first;
    loop {
        if let Some(Joined(attended)) = joined.take() {
            let why = match attended.run().await {
                Ok(End::Daemon) => return,
                Ok(End::Closed) => None,
                Err(error) => Some(error.to_string()),
            };
            tracing::warn!(why, "{bus} went away; the control socket goes on");
            pause = first;
        }
        tokio::time::sleep(pause).await;
        match join(&bus, &shared).await {
            Ok(again) => joined = again,
            Err(error) => {
                pause = (pause * 2).min(most);
                tracing::warn!("{error}; trying again in {pause:?}");
            }
        }
    }
}

async fn owner(connection: &Connection) -> Option<u32> {
    let bus = DBusProxy::new(connection).await.ok()?;
    let name = BusName::try_from(rtswap_dbus::BUS_NAME).ok()?;
    bus.get_connection_unix_process_id(name).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buses_are_read() {
        assert_eq!("none".parse(), Ok(Bus::None));
        assert_eq!("system".parse(), Ok(Bus::System));
        let address = "unix:path=/run/bus".parse::<Bus>().unwrap();
        assert_eq!(address.to_string(), "the bus at unix:path=/run/bus");
        let error = "systm".parse::<Bus>().unwrap_err();
        assert!(error.starts_with("say system, session, none or"), "{error}");
    }
}
