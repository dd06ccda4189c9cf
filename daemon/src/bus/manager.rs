//! The interface `org.rtswap.Manager1`: registering tasks, ending and parking them, the plan, the policy, reloading.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rtswap_dbus::Error;
use rtswap_dbus::text::escape;
use rtswap_engine::RegistrationId;
use rtswap_engine::input::{Call, Caller, PolicyChange};
use rtswap_engine::ledger::Disagreement;
use rtswap_engine::registry::Right;
use rtswap_engine::sample::ProbeState;
use rtswap_engine::status::ProcessStatus;
use rtswap_policy::units::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot::Sender;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, ObjectPath, OwnedObjectPath, OwnedVariant, Variant};

use super::auth::Visit;
use super::options;
use super::plan;
use super::policy;
use super::polkit::Action;
use super::publish::Published;
use super::viewer::Viewer;
use crate::dispatch::{OpenCall, Request, error_of};
use crate::state::parse_calibration;

/// The root object's interface, for one connection.
#[derive(Clone, Debug)]
pub(super) struct Manager1(pub(super) Arc<Published>);

impl Manager1 {
    /// Begins a call that takes the dispatch thread's time, if its user may make one more now.
    async fn visit<'a>(
        &self,
        connection: &'a Connection,
        header: &'a Header<'a>,
    ) -> Result<Visit<'a>, Error> {
        let visit = Visit::of(self.0.door, connection, header).await?;
        let uid = visit.caller.uid;
        if self.0.shared.limits.call(uid, Instant::now()) {
            return Ok(visit);
        }
        Err(Error::Busy(format!(
            "user {uid} calls too often; wait a second"
        )))
    }

    /// Registers a task, with a lease or without. Returns the caller's end of the lease, too.
    async fn add(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        name: &str,
        options: HashMap<String, OwnedVariant>,
        lease: bool,
    ) -> Result<(OwnedObjectPath, Option<OwnedFd>), Error> {
        let visit = self.visit(connection, header).await?;
        let read = options::read(name, options);
        let (options, claimant) = read.map_err(Error::InvalidArgument)?;
        let checked = options.clone().check();
        let right = checked.map_err(|error| error_of(&error))?.right();
        let limits = &self.0.shared.limits;
        let call = |caller| {
            Box::new(Call::Register {
                caller,
                options: options.clone(),
                claimant,
                lease,
            })
        };
        let mut caller = visit.caller;
        if let Some(right) = right
            && visit.may_ask()
        {
            // First without polkit: no password need be typed for a task that is refused anyway.
            let refused = self.register_by(call(caller), None).await;
            if !matches!(refused, Err(Error::AccessDenied(_))) {
                refused?;
            }
            let action = match right {
                Right::Realtime => Action::RegisterRealtime,
                Right::Weight => Action::RegisterWeight,
            };
            caller = visit.asking_for(action, limits).await?;
        }
        // After the checks, so that refused calls take no descriptors.
        let (ours, theirs) = lease.then(make_lease).transpose()?.unzip();
        let registered = self.register_by(call(caller), ours).await;
        let id = match registered {
            Ok(id) => id,
            Err(error) => {
                let viewer = Viewer::of_visit(&visit, limits, |_| true).await;
                return Err(viewer.error(error));
            }
        };
        // The task's object must be served before the caller is given its path.
        self.0.update(connection).await?;
        Ok((rtswap_dbus::task_path(id.0), theirs))
    }

    async fn register_by(
        &self,
        call: Box<Call>,
        lease: Option<OwnedFd>,
    ) -> Result<RegistrationId, Error> {
        let register = |reply| Request::Call(call, OpenCall::Register { lease, reply });
        self.0.shared.handle.call(register).await
    }

    /// Checks what was measured and the caller's right, keeps it, and has the engine use it. Whether it does so at once.
    async fn calibrate(&self, visit: &Visit<'_>, text: &str) -> Result<bool, Error> {
        let shared = &self.0.shared;
        let (gpu, calibration) = parse_calibration(text).map_err(Error::InvalidArgument)?;
        let set = async |caller, is_kept| {
            let call = Box::new(Call::Calibrate {
                caller,
                gpu,
                calibration,
                is_kept,
            });
            let request = |reply| Request::Call(call, OpenCall::Calibrate { reply });
            shared.handle.call(request).await
        };
        let mut caller = visit.caller;
        let mut checked = set(caller, false).await;
        // A password need be typed only where it is all that is missing.
        if visit.may_ask() && matches!(checked, Err(Error::AccessDenied(_))) {
            caller = visit.asking_for(Action::Calibrate, &shared.limits).await?;
            checked = set(caller, false).await;
        }
        checked?;
        // One after the other: what is kept last is used last.
        let _turn = shared.calibrating.lock().await;
        let (calibrations, text) = (shared.calibrations.clone(), text.to_owned());
        let kept = tokio::task::spawn_blocking(move || calibrations.keep(gpu, &text)).await;
        kept.map_err(std::io::Error::other)
            .and_then(|kept| kept)
            .map_err(|error| Error::Busy(format!("the calibration cannot be kept: {error}")))?;
        set(caller, true).await
    }

    /// Has the engine change the policy, by the caller's right or by polkit's leave.
    async fn change_policy(&self, visit: &Visit<'_>, change: PolicyChange) -> Result<(), Error> {
        let shared = &self.0.shared;
        let by = |caller| {
            let change = change.clone();
            let call = Box::new(Call::SetPolicy { caller, change });
            let request = |reply| Request::Call(call, OpenCall::SetPolicy { reply });
            shared.handle.call(request)
        };
        let done = by(visit.caller).await;
        // A password need be typed only where it is all that is missing.
        if !visit.may_ask() || !matches!(done, Err(Error::AccessDenied(_))) {
            return done;
        }
        let caller = visit.asking_for(Action::SetPolicy, &shared.limits).await?;
        by(caller).await
    }

    /// Has the engine change a task: its user may, root, and those that polkit lets manage others' tasks.
    async fn change(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        task: &OwnedObjectPath,
        request: impl Fn(Caller, RegistrationId, Sender<Result<(), Error>>) -> Request,
    ) -> Result<(), Error> {
        let visit = self.visit(connection, header).await?;
        let Some(id) = rtswap_dbus::task_id(task.as_str()) else {
            return Err(Error::NoSuchTask(format!("{} is no task", task.as_str())));
        };
        let handle = &self.0.shared.handle;
        let by = |caller| {
            let request = &request;
            handle.call(move |reply| request(caller, RegistrationId(id), reply))
        };
        let mut done = by(visit.caller).await;
        // A password need be typed only where it is all that is missing.
        if visit.may_ask() && matches!(done, Err(Error::AccessDenied(_))) {
            let asked = visit.asking_for(Action::ManageOthers, &self.0.shared.limits);
            done = by(asked.await?).await;
        }
        done?;
        self.0.update(connection).await?;
        Ok(())
    }
}

/// The two ends of a lease: ours, and the caller's.
fn make_lease() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| Error::Busy(format!("no pipe to be had for a lease: {error}")))
}

#[zbus::interface(name = "org.rtswap.Manager1", introspection_docs = false)]
impl Manager1 {
    #[zbus(out_args("task"))]
    async fn register(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        name: &str,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<OwnedObjectPath, Error> {
        let added = self.add(connection, &header, name, options, false).await;
        Ok(added?.0)
    }

    #[zbus(out_args("task", "lease"))]
    async fn register_with_lease(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        name: &str,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<(OwnedObjectPath, zbus::OwnedFd), Error> {
        let added = self.add(connection, &header, name, options, true);
        let (task, theirs) = added.await?;
        let theirs = theirs.ok_or_else(|| Error::Busy("no lease was made".into()))?;
        Ok((task, theirs.into()))
    }

    async fn unregister(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        task: OwnedObjectPath,
    ) -> Result<(), Error> {
        let request = |caller, registration, reply| {
            let call = Call::Unregister {
                caller,
                registration,
            };
            let open = OpenCall::Unregister {
                registration,
                reply,
            };
            Request::Call(Box::new(call), open)
        };
        self.change(connection, &header, &task, request).await
    }

    async fn park(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        task: OwnedObjectPath,
    ) -> Result<(), Error> {
        let request = |caller, registration, reply| {
            let call = Call::Park {
                caller,
                registration,
            };
            Request::Call(Box::new(call), OpenCall::Park { reply })
        };
        self.change(connection, &header, &task, request).await
    }

    async fn resume(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        task: OwnedObjectPath,
    ) -> Result<(), Error> {
        let request = |caller, registration, reply| {
            let call = Call::Resume {
                caller,
                registration,
            };
            Request::Call(Box::new(call), OpenCall::Park { reply })
        };
        self.change(connection, &header, &task, request).await
    }

    #[zbus(out_args("plan"))]
    async fn plan(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Error> {
        let visit = self.visit(connection, &header).await?;
        let plan = |reply| Request::Plan { reply };
        let gpus = self.0.shared.handle.call(plan).await?;
        let foreign = |viewer: Viewer| plan::owners(&gpus).any(|owner| !viewer.sees(owner));
        let viewer = Viewer::of_visit(&visit, &self.0.shared.limits, foreign).await;
        Ok(plan::json(&gpus, viewer))
    }

    async fn reload(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Error> {
        let visit = self.visit(connection, &header).await?;
        if !visit.caller.privileged {
            return Err(Error::AccessDenied(format!(
                "user {} may not reload the files; root may",
                visit.caller.uid
            )));
        }
        let reloaded = self.0.shared.files.reload(&self.0.shared.handle).await;
        let viewer = Viewer::of_visit(&visit, &self.0.shared.limits, |_| false).await;
        reloaded.map_err(|error| viewer.error(error))?;
        self.0.update(connection).await?;
        Ok(())
    }

    #[zbus(out_args("used"))]
    async fn set_calibration(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        text: &str,
    ) -> Result<bool, Error> {
        let visit = self.visit(connection, &header).await?;
        let used = self.calibrate(&visit, text).await?;
        self.0.update(connection).await?;
        Ok(used)
    }

    async fn set_policy(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<(), Error> {
        let visit = self.visit(connection, &header).await?;
        let change = policy::read(visit.caller.uid, options).map_err(Error::InvalidArgument)?;
        let done = self.change_policy(&visit, change).await;
        // Some of it may be in effect although the answer is no.
        self.0.update(connection).await?;
        match done {
            // It names tasks.
            Err(error @ Error::NotSchedulable(_)) => {
                let viewer = Viewer::of_visit(&visit, &self.0.shared.limits, |_| true).await;
                Err(viewer.error(error))
            }
            done => done,
        }
    }

    #[zbus(out_args("policy"))]
    async fn policy(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Error> {
        let visit = self.visit(connection, &header).await?;
        let snapshot = self.0.shared.handle.snapshot();
        let owners = snapshot.policy.iter().filter_map(policy::owner);
        let foreign = |viewer: Viewer| owners.clone().any(|owner| !viewer.sees(owner));
        let viewer = Viewer::of_visit(&visit, &self.0.shared.limits, foreign).await;
        Ok(policy::json(&snapshot.policy, viewer))
    }

    #[zbus(property(emits_changed_signal = "const"))]
    #[expect(clippy::unused_self, reason = "a property is a method")]
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    #[zbus(property(emits_changed_signal = "const"), name = "StartedUSec")]
    fn started_usec(&self) -> u64 {
        self.0.shared.started_usec
    }

    /// Changes of this property are not announced: a client that wants to know asks.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probes(&self) -> String {
        match &self.0.shared.handle.snapshot().probes {
            ProbeState::Off => "off".into(),
            ProbeState::On { .. } => "on".into(),
            ProbeState::Missing(problem) => format!("missing: {}", escape(problem)),
        }
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn left_alone(&self) -> Vec<String> {
        self.0.shared.handle.snapshot().left_alone.clone()
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn probed_libraries(&self) -> u32 {
        match self.0.shared.handle.snapshot().probes {
            ProbeState::On { libraries, .. } => libraries,
            _ => 0,
        }
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn probe_records_lost(&self) -> u64 {
        match self.0.shared.handle.snapshot().probes {
            ProbeState::On { lost_news, .. } => lost_news,
            _ => 0,
        }
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn probe_calls_lost(&self) -> u64 {
        match self.0.shared.handle.snapshot().probes {
            ProbeState::On { lost_calls, .. } => lost_calls,
            _ => 0,
        }
    }

    #[zbus(signal)]
    pub(super) async fn deadline_missed(
        emitter: &SignalEmitter<'_>,
        task: ObjectPath<'_>,
        job: u64,
        lateness_us: u64,
        cause: &str,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    pub(super) async fn violation(
        emitter: &SignalEmitter<'_>,
        task: ObjectPath<'_>,
        kind: &str,
        detail: &str,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    pub(super) async fn policy_changed(emitter: &SignalEmitter<'_>) -> zbus::Result<()>;

    #[zbus(out_args("processes"))]
    async fn list_processes(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<Vec<HashMap<String, OwnedVariant>>, Error> {
        let visit = Visit::of(self.0.door, connection, &header).await?;
        let limits = &self.0.shared.limits;
        let _turn = limits.turn(visit.caller.uid).await;
        let snapshot = self.0.shared.handle.snapshot();
        // The user of a process that has gone is not known: root and managers see it.
        let visible = |viewer: Viewer, process: &ProcessStatus| {
            viewer.sees_all() || process.uid.is_some_and(|uid| viewer.sees(uid))
        };
        let processes = snapshot.processes.iter();
        let foreign = |viewer| processes.clone().any(|process| !visible(viewer, process));
        let viewer = Viewer::of_visit(&visit, limits, foreign).await;
        processes
            .filter(|process| visible(viewer, process))
            .map(fields)
            .collect()
    }
}

/// What `ListProcesses` says of a process; what is not known is left out.
fn fields(process: &ProcessStatus) -> Result<HashMap<String, OwnedVariant>, Error> {
    let mut fields = HashMap::new();
    let mut put = |key: &str, value: Option<Variant<'_>>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value.try_into()?);
        }
        Ok::<_, zbus::Error>(())
    };
    let kept = |bytes: Bytes| (bytes > Bytes::ZERO).then(|| bytes.0.into());
    put("pid", Some(process.pid.into()))?;
    put("comm", Some(escape(&process.comm).as_ref().into()))?;
    put("managed", Some(process.managed.into()))?;
    put("attached", Some(process.attached.into()))?;
    put("uid", process.uid.map(Variant::from))?;
    let task = process.task.map(|task| rtswap_dbus::task_path(task.0));
    put("task", task.map(Variant::from))?;
    put("gpu", process.gpu.map(|gpu| (gpu as u32).into()))?;
    put("nvml_bytes", process.nvml.map(|bytes| bytes.0.into()))?;
    if let Some(probed) = &process.probed {
        put("probed_bytes", Some(probed.bytes.0.into()))?;
        put("probed_managed_bytes", Some(probed.managed.0.into()))?;
        put("first_seen_usec", Some((probed.first_seen.0 / 1000).into()))?;
        put("baseline", Some(probed.baseline.into()))?;
        put("confidence", Some(probed.confidence.into()))?;
    }
    let origin = process.origin.as_deref().map(escape);
    put("origin", origin.as_deref().map(Variant::from))?;
    put("agent_bytes", process.agent.map(|bytes| bytes.0.into()))?;
    put("kept_for_processes_bytes", kept(process.kept.for_processes))?;
    put("kept_for_devices_bytes", kept(process.kept.for_devices))?;
    let disagreement = process.disagreement.map(Disagreement::name);
    put("disagreement", disagreement.map(Variant::from))?;
    Ok(fields)
}
