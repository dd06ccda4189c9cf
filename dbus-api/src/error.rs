//! The named errors of the contract: one type that the daemon raises and its clients receive.

use zbus::message::Header;
use zbus::names::ErrorName;
use zbus::{DBusError, Message, fdo};

use crate::text::escape;

/// Why a call was refused. Each text says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The admission test says no; the text carries its numbers.
    #[error("{0}")]
    NotSchedulable(String),
    /// No task of that id.
    #[error("{0}")]
    NoSuchTask(String),
    /// No GPU of that index or UUID.
    #[error("{0}")]
    NoSuchGpu(String),
    /// An argument is missing, out of range, or contradicts another.
    #[error("{0}")]
    InvalidArgument(String),
    /// The task runs by a plan from its graph, and nothing executes such plans.
    #[error("{0}")]
    NeedsExecutor(String),
    /// The call is about a process to which its agent has lost the connection: it ends with that.
    #[error("{0}")]
    AgentLost(String),
    /// The name is taken, or a limit is reached.
    #[error("{0}")]
    Busy(String),
    /// The caller may not do this (`org.freedesktop.DBus.Error.AccessDenied`).
    #[error("{0}")]
    AccessDenied(String),
    /// The daemon ended before it could answer (`org.freedesktop.DBus.Error.NoReply`): call again when it
    /// is back.
    #[error("{0}")]
    Ending(String),
    /// Not the daemon's answer but the transport's.
    #[error("{0}")]
    Bus(zbus::Error),
}

const ACCESS_DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
const NO_REPLY: &str = "org.freedesktop.DBus.Error.NoReply";
const FAILED: &str = "org.freedesktop.DBus.Error.Failed";

/// Makes an error of its text.
type FromText = fn(String) -> Error;

const NAMED: [(&str, FromText); 7] = [
    ("org.rtswap.Error.NotSchedulable", Error::NotSchedulable),
    ("org.rtswap.Error.NoSuchTask", Error::NoSuchTask),
    ("org.rtswap.Error.NoSuchGpu", Error::NoSuchGpu),
    ("org.rtswap.Error.InvalidArgument", Error::InvalidArgument),
    ("org.rtswap.Error.NeedsExecutor", Error::NeedsExecutor),
    ("org.rtswap.Error.AgentLost", Error::AgentLost),
    ("org.rtswap.Error.Busy", Error::Busy),
];

impl Error {
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::NotSchedulable(text) => (NAMED[0].0, Some(text)),
            Self::NoSuchTask(text) => (NAMED[1].0, Some(text)),
            Self::NoSuchGpu(text) => (NAMED[2].0, Some(text)),
            Self::InvalidArgument(text) => (NAMED[3].0, Some(text)),
            Self::NeedsExecutor(text) => (NAMED[4].0, Some(text)),
            Self::AgentLost(text) => (NAMED[5].0, Some(text)),
            Self::Busy(text) => (NAMED[6].0, Some(text)),
            Self::AccessDenied(text) => (ACCESS_DENIED, Some(text)),
            Self::Ending(text) => (NO_REPLY, Some(text)),
            Self::Bus(error) => (FAILED, error.description()),
        }
    }
}

impl DBusError for Error {
    fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
        let builder = Message::error(call, self.name());
        builder.build(&(escape(&self.to_string()).as_ref(),))
    }

    fn name(&self) -> ErrorName<'_> {
        ErrorName::from_static_str_unchecked(self.parts().0)
    }

    fn description(&self) -> Option<&str> {
        self.parts().1
    }
}

impl From<zbus::Error> for Error {
    fn from(error: zbus::Error) -> Self {
        match &error {
            zbus::Error::MethodError(name, text, _) => NAMED
                .iter()
                .find(|(known, _)| *known == name.as_str())
                .map_or_else(
                    || Self::Bus(error.clone()),
                    |(_, make)| make(text.clone().unwrap_or_default()),
                ),
            zbus::Error::FDO(fdo) => match &**fdo {
                fdo::Error::AccessDenied(text) => Self::AccessDenied(text.clone()),
                fdo::Error::NoReply(text) => Self::Ending(text.clone()),
                _ => Self::Bus(error),
            },
            _ => Self::Bus(error),
        }
    }
}

impl From<fdo::Error> for Error {
    fn from(error: fdo::Error) -> Self {
        zbus::Error::from(error).into()
    }
}
