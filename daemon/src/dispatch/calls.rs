//! Calls on the control socket: registrations made and ended.

use std::os::fd::OwnedFd;

use rtswap_dbus::Error;
use rtswap_policy::units::Time;

use super::run::Token;
use super::{Caller, Dispatcher};
use crate::registry::{Declaration, Origin, Registration, RegistrationId};
use crate::sys::poll::Watch;

impl Dispatcher {
    pub(super) fn register(
        &mut self,
        caller: Caller,
        declaration: Declaration,
        process: Option<OwnedFd>,
        lease: Option<OwnedFd>,
        now: Time,
    ) -> Result<RegistrationId, Error> {
        let checked = declaration.check().map_err(Error::InvalidArgument)?;
        let realtime = matches!(checked.class, rtswap_policy::task::Class::Realtime(_));
        if realtime && !caller.privileged {
            return Err(Error::AccessDenied(format!(
                "user {} may not register realtime tasks: root may, here or by a file in tasks.d; \
                 as best-effort (no period) it needs no permission",
                caller.uid
            )));
        }
        self.registry.admits(caller.uid, &checked.name)?;
        let gpu = match (&checked.gpu, realtime) {
            (None, false) => None,
            (wanted, _) => Some(self.find_gpu(wanted.as_deref())?),
        };
        let uuid = gpu.map(|gpu| self.gpus[gpu].uuid);
        let claim_until = now + self.config.daemon.claim_timeout();
        let entry = self.registry.add(caller.uid, checked, uuid, Origin::Call);
        let id = entry.id;
        entry.process = process;
        match lease {
            Some(lease) => {
                let watched = self
                    .poll
                    .add(&lease, Token::Lease(id.0).into(), Watch::Closed);
                entry.origin = Origin::Lease(lease);
                if let Err(error) = watched {
                    self.registry.remove(id);
                    return Err(Error::Busy(format!("cannot watch a lease: {error}")));
                }
            }
            None => entry.claim_until = Some(claim_until),
        }
        if realtime && let Some(gpu) = gpu {
            self.place(id, gpu, now).map_err(|reason| {
                self.forget(id);
                Error::NotSchedulable(reason)
            })?;
        }
        self.unsaved = true;
        self.unpublished = true;
        tracing::info!(
            task = self.registration_name(id),
            uid = caller.uid,
            realtime,
            "registered"
        );
        Ok(id)
    }

    /// Registers a realtime task with its GPU's scheduler, or says why it cannot be.
    pub(super) fn place(
        &mut self,
        id: RegistrationId,
        gpu: usize,
        now: Time,
    ) -> Result<(), String> {
        let Some(class) = self.registry.get(id).map(Registration::scheduled_class) else {
            return Ok(());
        };
        match self.add_task(id, gpu, class, now) {
            Some(Err(refusal)) => Err(refusal.to_string()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Takes back a registration that no scheduler knows.
    fn forget(&mut self, id: RegistrationId) {
        self.registry.remove(id);
        self.statistics.remove(&id);
    }

    pub(super) fn unregister(
        &mut self,
        caller: Caller,
        id: RegistrationId,
        now: Time,
    ) -> Result<(), Error> {
        let path = rtswap_dbus::task_path(id.0);
        let Some(entry) = self.registry.get(id) else {
            return Err(Error::NoSuchTask(format!("{} is not there", path.as_str())));
        };
        if entry.uid != caller.uid && !caller.privileged {
            return Err(Error::AccessDenied(format!(
                "{} belongs to user {}; only that user or root may end it",
                path.as_str(),
                entry.uid
            )));
        }
        match entry.origin {
            Origin::File => Err(Error::InvalidArgument(format!(
                "{} comes from a file in tasks.d; remove that and reload rtswapd",
                path.as_str()
            ))),
            Origin::Session => Err(Error::InvalidArgument(format!(
                "{} is a process's own and ends with it",
                path.as_str()
            ))),
            Origin::Call | Origin::Lease(_) => {
                self.end_registration(id, now);
                Ok(())
            }
        }
    }

    /// The GPU of an index or UUID; the only one where nothing is said.
    pub(super) fn find_gpu(&self, wanted: Option<&str>) -> Result<usize, Error> {
        let list = || {
            let gpus = self.gpus.iter().enumerate();
            let gpus: Vec<_> = gpus
                .map(|(at, gpu)| format!("{at} = {}", gpu.uuid))
                .collect();
            gpus.join(", ")
        };
        if self.gpus.is_empty() {
            return Err(Error::NoSuchGpu(
                "no GPU is known yet: describe it as [[gpu]] in rtswapd.toml, or start any program \
                 under rtswap once, whose agent tells of it"
                    .into(),
            ));
        }
        let Some(wanted) = wanted else {
            return match self.gpus.len() {
                1 => Ok(0),
                count => Err(Error::InvalidArgument(format!(
                    "there are {count} GPUs; say on which one the task lives, by index or UUID: {}",
                    list()
                ))),
            };
        };
        let by_index = wanted.parse().ok().filter(|at| *at < self.gpus.len());
        let named = |gpu: &super::gpu::Gpu| wanted.parse() == Ok(gpu.uuid);
        by_index
            .or_else(|| self.gpus.iter().position(named))
            .ok_or_else(|| Error::NoSuchGpu(format!("no GPU {wanted:?}; there are: {}", list())))
    }
}
