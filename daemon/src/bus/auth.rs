//! The caller of a D-Bus method, and its rights beyond those of every user.
//!
//! Root and the daemon's own user may do all. On the system bus polkit may give the others more
//! rights; on the control socket and on other buses there is no polkit to ask.

use rtswap_dbus::Error;
use rtswap_engine::input::Caller;
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::message::{Flags, Header};
use zbus::names::BusName;

use super::limits::Limits;
use super::polkit::{self, Action};

/// The way by which a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// The control socket: one peer, by the kernel's word.
    Socket,
    /// A bus: many, by the bus's word.
    Bus {
        /// Whether polkit speaks there.
        polkit: bool,
    },
}

/// One method call under way, with its caller.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    connection: &'a Connection,
    header: &'a Header<'a>,
    door: Door,
    /// The user that makes the call, and whether it may do all.
    pub(super) caller: Caller,
}

impl<'a> Visit<'a> {
    /// Finds the caller of the message with this `header`, which came in by `door`. Denied where no
    /// user can be found.
    pub(super) async fn of(
        door: Door,
        connection: &'a Connection,
        header: &'a Header<'a>,
    ) -> Result<Self, Error> {
        // A bus bounds how many answers a client waits for, and so what it can have begun; here
        // nothing would bound the others. (`transport` has the socket's answered.)
        let flags = header.primary().flags();
        if matches!(door, Door::Bus { .. }) && flags.contains(Flags::NO_REPLY_EXPECTED) {
            return Err(Error::InvalidArgument(
                "a call that wants no answer is not taken: ask for one".into(),
            ));
        }
        let uid = match door {
            Door::Socket => peer(connection).await,
            Door::Bus { .. } => match header.sender() {
                Some(sender) => {
                    let bus = DBusProxy::new(connection).await?;
                    let name = BusName::from(sender.as_ref());
                    bus.get_connection_credentials(name).await?.unix_user_id()
                }
                None => None,
            },
        };
        let uid = uid.ok_or_else(|| {
            Error::AccessDenied(
                "the user of the caller is not known; connect by the control socket of rtswapd"
                    .into(),
            )
        })?;
        let caller = Caller {
            uid,
            privileged: is_privileged(uid),
        };
        Ok(Self {
            connection,
            header,
            door,
            caller,
        })
    }

    /// Whether polkit lets the caller manage others' tasks without a password, and so see them.
    pub(super) async fn may_see_others(&self, limits: &Limits) -> bool {
        if self.door != (Door::Bus { polkit: true }) {
            return false;
        }
        let Some(_question) = limits.ask(self.caller.uid) else {
            return false;
        };
        polkit::allows_unasked(self.connection, self.header, Action::ManageOthers).await
    }

    /// Whether polkit might give the caller further rights.
    pub(super) fn may_ask(&self) -> bool {
        !self.caller.privileged && self.door == (Door::Bus { polkit: true })
    }

    /// The caller with the rights that polkit gives it for this call. Without polkit its rights stay
    /// as they are, and the dispatch thread refuses. Waits for as long as a password is being typed.
    pub(super) async fn asking_for(
        &self,
        action: Action,
        limits: &Limits,
    ) -> Result<Caller, Error> {
        let uid = self.caller.uid;
        if !self.may_ask() {
            return Ok(self.caller);
        }
        let Some(_question) = limits.ask(uid) else {
            return Err(Error::Busy(format!(
                "user {uid} waits for several authorizations already; answer those"
            )));
        };
        match polkit::check(self.connection, self.header, action).await {
            Ok(()) => Ok(Caller {
                uid,
                privileged: true,
            }),
            Err(denial) => Err(Error::AccessDenied(format!(
                "user {uid} may not {}: {denial}",
                action.words()
            ))),
        }
    }
}

/// The user on the other end of the control socket.
pub(super) async fn peer(connection: &Connection) -> Option<u32> {
    let credentials = connection.peer_creds().await;
    credentials.ok().and_then(|peer| peer.unix_user_id())
}

/// Whether a user may do all.
pub(super) fn is_privileged(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}
