//! Calls of users and of the administrator.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::Class;

use super::Engine;
use super::agenda::Chore;
use crate::error::CallError;
use crate::ids::{CallId, Claimant, RegistrationId};
use crate::input::{Call, Caller};
use crate::output::{Level, Output, Reply};
use crate::owners::Owner;
use crate::registry::{Origin, Right, TaskOptions};

impl Engine {
    /// Does what a call asks for. It is answered once its effect is kept and what follows from it has gone
    /// to the agents: grants precede what people read.
    pub(super) fn call(&mut self, id: CallId, call: Call) {
        let result = match call {
            Call::Register {
                caller,
                options,
                claimant,
                lease,
            } => {
                let origin = if lease { Origin::Lease } else { Origin::Call };
                let registered = self.register(caller, options, claimant, origin);
                registered.map(Reply::Registered)
            }
            Call::Unregister {
                caller,
                registration,
            } => self.unregister(caller, registration).map(|()| Reply::Done),
            Call::Park {
                caller,
                registration,
            } => self
                .set_parked(caller, registration, true)
                .map(|()| Reply::Done),
            Call::Resume {
                caller,
                registration,
            } => self
                .set_parked(caller, registration, false)
                .map(|()| Reply::Done),
            Call::Calibrate {
                caller,
                gpu,
                calibration,
                is_kept,
            } => {
                let used = self.calibrate(caller, gpu, calibration, is_kept);
                used.map(Reply::Calibrated)
            }
            Call::SetPolicy { caller, change } => {
                self.set_policy(caller, change).map(|()| Reply::Done)
            }
            Call::Reload { config, tasks } => self.reload(&config, tasks).map(|()| Reply::Done),
        };
        self.chore(Chore::Answer(id, result));
    }

    pub(super) fn answer(&mut self, id: CallId, result: Result<Reply, CallError>) {
        self.emit_record();
        self.emit(Output::Answer(id, result));
    }

    fn register(
        &mut self,
        caller: Caller,
        options: TaskOptions,
        claimant: Option<Claimant>,
        origin: Origin,
    ) -> Result<RegistrationId, CallError> {
        let task = options.check()?;
        let realtime = matches!(task.class, Class::Realtime(_));
        self.end_deserted_lease(caller.uid, &task.name);
        self.admits(caller.uid, &task.name)?;
        self.policy_admits(caller.uid, &task)?;
        let gpu = match (&task.gpu, realtime) {
            (None, false) => None,
            (wanted, _) => Some(self.find_gpu(wanted.as_deref())?),
        };
        // Last: a caller that may yet be given the right types no password for what is refused anyway.
        if let Some(right) = task.right()
            && !caller.privileged
        {
            return Err(CallError::AccessDenied(denial(caller.uid, right)));
        }
        let uuid = gpu.map(|gpu| self.gpus[gpu].uuid);
        let entry = self.registry.add(caller.uid, task, origin);
        entry.gpu = uuid;
        entry.claimant = claimant;
        let id = entry.id;
        if realtime && let Some(gpu) = gpu {
            self.place(id, gpu).map_err(|reason| {
                self.registry.remove(id);
                CallError::NotSchedulable(reason)
            })?;
        }
        if origin == Origin::Call {
            self.await_claim(id);
        }
        self.unrecorded.note_registration(id);
        self.note_change();
        let class = if realtime { "realtime" } else { "best-effort" };
        let text = format!("registered as {class} by user {}", caller.uid);
        self.log(self.line(Level::Info, id, text));
        Ok(id)
    }

    /// Ends a registration without a process if its lease ended with the daemon before: otherwise a service
    /// that is started again waits for its own former registration.
    fn end_deserted_lease(&mut self, uid: u32, name: &str) {
        if let Some(id) = self.registry.find(uid, name)
            && self.registry.get(id).map(|entry| entry.origin) == Some(Origin::FormerLease)
            && !self.has_process(id)
        {
            self.end_registration(id);
        }
    }

    /// Whether a user may have one more task, of that name.
    pub(super) fn admits(&self, uid: u32, name: &str) -> Result<(), CallError> {
        self.admits_of(&self.registry.user(uid), uid, name)
    }

    /// Whether an owner may have one more task, of that name.
    pub(super) fn admits_of(&self, owner: &Owner, uid: u32, name: &str) -> Result<(), CallError> {
        let most = self.policy.max_tasks(owner.uid());
        self.registry.admits(owner, uid, name, most)
    }

    fn unregister(&mut self, caller: Caller, id: RegistrationId) -> Result<(), CallError> {
        let entry = self.registry.get(id).ok_or(CallError::NoSuchTask(id))?;
        let is_own = entry.uid == caller.uid;
        match entry.origin {
            Origin::File => Err(CallError::InvalidArgument(format!(
                "{id} comes from a file in tasks.d; remove that and reload rtswapd"
            ))),
            Origin::Session if !self.is_attached(id) => Err(CallError::AgentLost(format!(
                "{id} is a process's own, and its agent does not answer; it ends with the process"
            ))),
            Origin::Session => Err(CallError::InvalidArgument(format!(
                "{id} is a process's own and ends with it"
            ))),
            // After what is refused to everybody: a caller that may yet be given the right types no
            // password in vain.
            Origin::Call | Origin::Lease | Origin::FormerLease if !is_own && !caller.privileged => {
                Err(CallError::AccessDenied(format!(
                    "{id} belongs to user {}; only that user or root may end it",
                    entry.uid
                )))
            }
            Origin::Call | Origin::Lease | Origin::FormerLease => {
                self.end_registration(id);
                Ok(())
            }
        }
    }

    /// Parks or resumes the task of a registration on every GPU that it uses.
    fn set_parked(
        &mut self,
        caller: Caller,
        id: RegistrationId,
        parked: bool,
    ) -> Result<(), CallError> {
        let entry = self.registry.get_mut(id).ok_or(CallError::NoSuchTask(id))?;
        if entry.uid != caller.uid && !caller.privileged {
            let uid = entry.uid;
            let what = if parked { "park" } else { "resume" };
            return Err(CallError::AccessDenied(format!(
                "{id} belongs to user {uid}; only that user or root may {what} it"
            )));
        }
        let has_ended = self
            .tasks
            .of(id)
            .any(|(_, task)| self.tasks.get(task).is_some_and(|task| task.has_ended));
        if parked && has_ended {
            return Err(CallError::InvalidArgument(format!(
                "the registration of {id} has ended, and its processes go on as they are; end them, or register anew"
            )));
        }
        let entry = self.registry.get_mut(id).ok_or(CallError::NoSuchTask(id))?;
        if mem::replace(&mut entry.parked, parked) == parked {
            return Ok(());
        }
        self.unrecorded.note_registration(id);
        self.note_change();
        let (what, uid) = (if parked { "parked" } else { "resumed" }, caller.uid);
        self.log(self.line(Level::Info, id, format!("{what} by user {uid}")));
        let tasks: Vec<_> = self.tasks.of(id).collect();
        for (gpu, task) in tasks {
            if self.tasks.get(task).is_some_and(|task| !task.has_ended) {
                let event = if parked {
                    Event::Park { task }
                } else {
                    Event::Resume { task }
                };
                self.tell(gpu, event);
            }
        }
        Ok(())
    }

    /// Whether the agent of one of its processes can be talked to.
    fn is_attached(&self, id: RegistrationId) -> bool {
        self.sessions
            .of(id)
            .any(|(_, session)| session.is_connected)
    }
}

/// The text for a user that lacks a right.
fn denial(uid: u32, right: Right) -> String {
    let (what, instead) = match right {
        Right::Realtime => (
            "realtime tasks",
            "as best-effort (no period) it needs no permission",
        ),
        Right::Weight => (
            "tasks with a weight above 100",
            "with a weight of at most 100 it needs no permission",
        ),
    };
    format!("user {uid} may not register {what}: root may, here or by a file in tasks.d; {instead}")
}
