//! One question to polkit, cancelled when the caller leaves the bus.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::message::{Flags, Header};
use zbus::names::BusName;
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

/// What polkit is asked for, as in packaging/polkit/org.rtswap.policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// To register a realtime task.
    RegisterRealtime,
    /// To register a best-effort task with a weight above the default. The same right as for a realtime
    /// task: it takes from other users likewise.
    RegisterWeight,
    /// To end another user's task.
    ManageOthers,
    /// To say what swapping costs on a GPU: every promise rests on it.
    Calibrate,
    /// To set rules for all users and their tasks.
    SetPolicy,
}

impl Action {
    fn id(self) -> &'static str {
        match self {
            Self::RegisterRealtime | Self::RegisterWeight => "org.rtswap.register-realtime",
            Self::ManageOthers => "org.rtswap.manage-others",
            Self::Calibrate => "org.rtswap.calibrate",
            Self::SetPolicy => "org.rtswap.set-policy",
        }
    }

    /// What it allows, after "may".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::RegisterRealtime => "register realtime tasks",
            Self::RegisterWeight => "register tasks with a weight above 100",
            Self::ManageOthers => "end or park other users' tasks",
            Self::Calibrate => "calibrate GPUs",
            Self::SetPolicy => "set the policy",
        }
    }
}

/// Why it was not allowed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denial {
    /// By the rules, or since no password was given.
    #[error("polkit says no to {0}; ask the administrator for a rule, or do it as root")]
    No(&'static str),
    /// A password is needed, but the caller did not allow a question.
    #[error(
        "{0} needs a password, but the call did not allow to ask for one \
         (ALLOW_INTERACTIVE_AUTHORIZATION); allow it, or do it as root"
    )]
    Challenge(&'static str),
    /// There is nobody to answer.
    #[error(
        "polkit, which decides over {action}, does not answer: {cause}; install polkitd, or do it as root"
    )]
    Absent {
        /// What was asked for.
        action: &'static str,
        /// What the bus said.
        cause: zbus::Error,
    },
    /// The caller has left the bus.
    #[error("the caller has gone")]
    CallerGone,
}

/// Asks polkit whether the sender of `header` may do `action`. The question is cancelled when the
/// sender leaves the bus.
///
/// polkit is asked about the sender's bus name, not its pid: polkit finds the process itself, by pidfd,
/// without a race.
pub(super) async fn check(
    connection: &Connection,
    header: &Header<'_>,
    action: Action,
) -> Result<(), Denial> {
    /// Numbers the questions, so that each can be cancelled by its own id.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let absent = |cause| Denial::Absent {
        action: action.id(),
        cause,
    };
    let sender = header.sender().ok_or(Denial::CallerGone)?;
    let subject = Subject::new_for_message_header(header).map_err(|_| Denial::CallerGone)?;
    let bus = DBusProxy::new(connection).await.map_err(absent)?;
    // Watched first, then looked at: it cannot go unseen.
    let watched = [(0, sender.as_str())];
    let changes = bus.receive_name_owner_changed_with_args(&watched).await;
    let mut changes = changes.map_err(absent)?;
    let there = bus.name_has_owner(BusName::from(sender.as_ref())).await;
    if !there.map_err(|error| absent(error.into()))? {
        return Err(Denial::CallerGone);
    }
    let authority = AuthorityProxy::new(connection).await.map_err(absent)?;
    let flags = header.primary().flags();
    let interaction = if flags.contains(Flags::ALLOW_INTERACTIVE_AUTH) {
        CheckAuthorizationFlags::ALLOW_USER_INTERACTION
    } else {
        CheckAuthorizationFlags::empty()
    };
    let question = format!("rtswap{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let details = HashMap::new();
    let answer =
        authority.check_authorization(&subject, action.id(), &details, interaction, &question);
    let answer = tokio::select! {
        answer = answer => answer.map_err(absent)?,
        _ = changes.next() => {
            // It may have been answered at this very moment.
            let _ = authority.cancel_check_authorization(&question).await;
            return Err(Denial::CallerGone);
        }
    };
    if answer.is_authorized {
        Ok(())
    } else if answer.is_challenge && interaction.is_empty() {
        Err(Denial::Challenge(action.id()))
    } else {
        Err(Denial::No(action.id()))
    }
}

/// Whether polkit lets the sender of `header` do `action` without any question to a person. An authority
/// that does not answer within a second does not.
pub(super) async fn allows_unasked(
    connection: &Connection,
    header: &Header<'_>,
    action: Action,
) -> bool {
    const PATIENCE: Duration = Duration::from_secs(1);
    let ask = async {
        let subject = Subject::new_for_message_header(header).ok()?;
        let authority = AuthorityProxy::new(connection).await.ok()?;
        let (details, flags) = (HashMap::new(), CheckAuthorizationFlags::empty());
        let answer = authority.check_authorization(&subject, action.id(), &details, flags, "");
        Some(answer.await.ok()?.is_authorized)
    };
    timeout(PATIENCE, ask).await.ok().flatten() == Some(true)
}
