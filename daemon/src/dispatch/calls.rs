//! Calls that the engine has not answered yet, and the leases of tasks that calls registered.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rtswap_dbus::Error;
use rtswap_engine::{CallError, CallId, RegistrationId};
use tokio::sync::oneshot;

use crate::config::DaemonConfig;

/// Open calls until their answers, and leases until their ends, by the call's number.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<CallId, OpenCall>,
    last: u64,
    leases: BTreeMap<CallId, (RegistrationId, OwnedFd)>,
}

/// A call that waits for the engine's answer, which goes to `reply`.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum OpenCall {
    /// Registers a task. It ends when the caller closes its end of the pipe of which `lease` is ours, if
    /// there is one.
    Register {
        lease: Option<OwnedFd>,
        reply: oneshot::Sender<Result<RegistrationId, Error>>,
    },
    /// Ends the task of `registration`.
    Unregister {
        registration: RegistrationId,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Parks or resumes a task.
    Park {
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Takes what was measured on a GPU; whether it counts at once.
    Calibrate {
        reply: oneshot::Sender<Result<bool, Error>>,
    },
    /// Changes rules of the policy.
    SetPolicy {
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Puts the files into effect; `config` has the daemon's own settings in them.
    Reload {
        config: DaemonConfig,
        reply: oneshot::Sender<Result<(), Error>>,
    },
}

impl Calls {
    /// The number for the next call.
    pub(super) fn next_id(&mut self) -> CallId {
        self.last += 1;
        CallId(self.last)
    }

    /// Keeps a call until it is answered.
    pub(super) fn open(&mut self, id: CallId, call: OpenCall) {
        self.open.insert(id, call);
    }

    /// Takes out a call that is answered.
    pub(super) fn close(&mut self, id: CallId) -> Option<OpenCall> {
        self.open.remove(&id)
    }

    /// Keeps the lease of a task that the call `id` registered.
    pub(super) fn keep_lease(&mut self, id: CallId, registration: RegistrationId, lease: OwnedFd) {
        self.leases.insert(id, (registration, lease));
    }

    /// Drops a lease that has ended. Returns its registration.
    pub(super) fn end_lease(&mut self, id: CallId) -> Option<RegistrationId> {
        self.leases
            .remove(&id)
            .map(|(registration, _)| registration)
    }

    /// Drops the lease of a registration that has ended.
    pub(super) fn drop_lease(&mut self, registration: RegistrationId) {
        self.leases.retain(|_, (of, _)| *of != registration);
    }
}

/// Converts the engine's refusal of a call for D-Bus.
pub(crate) fn error_of(error: &CallError) -> Error {
    let text = error.to_string();
    match error {
        CallError::InvalidArgument(_) => Error::InvalidArgument(text),
        CallError::AccessDenied(_) => Error::AccessDenied(text),
        CallError::NoSuchTask(_) => Error::NoSuchTask(text),
        CallError::NoSuchGpu(_) => Error::NoSuchGpu(text),
        CallError::NotSchedulable(_) => Error::NotSchedulable(text),
        CallError::NeedsExecutor(_) => Error::NeedsExecutor(text),
        CallError::AgentLost(_) => Error::AgentLost(text),
        CallError::Busy(_) => Error::Busy(text),
    }
}
