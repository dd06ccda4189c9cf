//! The numbers by which the engine and its shell name things.

use core::fmt;

/// Names a connection of an agent and all that the shell keeps for it (socket, page, pidfd). Given by
/// the shell, never reused. A process that is awaited from the daemon before has one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Names a call until it is answered. Given by the shell, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Names a registration: the number in its D-Bus path and in the agents' Hello. Never reused while
/// the state file lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistrationId(pub u64);

impl fmt::Display for RegistrationId {
    /// As people name it to `Unregister`: by its D-Bus path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/org/rtswap/task/{}", self.0)
    }
}

/// The secret of a session, known to its agent and to the daemon only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

/// The only process that may claim a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its id in the daemon's PID namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}
