//! The interface `org.rtswap.Manager1`: registering tasks, ending them, the plan, reloading.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rtswap_dbus::Error;
use rtswap_engine::RegistrationId;
use rtswap_engine::input::Call;
use rtswap_engine::ledger::Disagreement;
use rtswap_engine::sample::ProbeState;
use rtswap_engine::status::ProcessStatus;
use rtswap_policy::task::Class;
use rtswap_policy::units::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, ObjectPath, OwnedObjectPath, OwnedVariant, Variant};

use super::auth::Visit;
use super::options;
use super::polkit::Action;
use super::publish::Published;
use crate::dispatch::{OpenCall, Request};

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

    /// Reads and checks what is to be registered, with a lease or without, and that its caller may
    /// register it.
    async fn admit(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        name: &str,
        options: HashMap<String, OwnedVariant>,
        lease: bool,
    ) -> Result<Box<Call>, Error> {
        let visit = self.visit(connection, header).await?;
        let read = options::read(name, options);
        let (options, claimant) = read.map_err(Error::InvalidArgument)?;
        // Before polkit is asked: no password need be typed for a task that is refused anyway.
        let checked = options.clone().check();
        let class = checked.map_err(Error::InvalidArgument)?.class;
        let caller = match class {
            Class::Realtime(_) => {
                let asked = visit.asking_for(Action::RegisterRealtime, &self.0.shared.limits);
                asked.await?
            }
            Class::BestEffort => visit.caller,
        };
        Ok(Box::new(Call::Register {
            caller,
            options,
            claimant,
            lease,
        }))
    }

    async fn add(
        &self,
        connection: &Connection,
        call: Box<Call>,
        lease: Option<OwnedFd>,
    ) -> Result<OwnedObjectPath, Error> {
        let register = |reply| Request::Call(call, OpenCall::Register { lease, reply });
        let id = self.0.shared.handle.call(register).await?;
        // The task's object must be served before the caller is given its path.
        self.0.update(connection).await?;
        Ok(rtswap_dbus::task_path(id.0))
    }
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
        let call = self.admit(connection, &header, name, options, false);
        self.add(connection, call.await?, None).await
    }

    #[zbus(out_args("task", "lease"))]
    async fn register_with_lease(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        name: &str,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<(OwnedObjectPath, zbus::OwnedFd), Error> {
        let call = self.admit(connection, &header, name, options, true).await?;
        // After the checks, so that refused calls take no descriptors.
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(|error| Error::Busy(format!("no pipe to be had for a lease: {error}")))?;
        let task = self.add(connection, call, Some(ours)).await?;
        Ok((task, theirs.into()))
    }

    async fn unregister(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        task: OwnedObjectPath,
    ) -> Result<(), Error> {
        let visit = self.visit(connection, &header).await?;
        let Some(id) = rtswap_dbus::task_id(task.as_str()) else {
            return Err(Error::NoSuchTask(format!("{} is no task", task.as_str())));
        };
        // Registration numbers are not reused, so the owner is the same when the dispatch thread looks.
        let snapshot = self.0.shared.handle.snapshot();
        let owner = snapshot.tasks.get(&id).map(|task| task.user_id);
        let caller = match owner {
            Some(uid) if uid != visit.caller.uid => {
                let asked = visit.asking_for(Action::ManageOthers, &self.0.shared.limits);
                asked.await?
            }
            _ => visit.caller,
        };
        let registration = RegistrationId(id);
        let call = Box::new(Call::Unregister {
            caller,
            registration,
        });
        let unregister = |reply| {
            Request::Call(
                call,
                OpenCall::Unregister {
                    registration,
                    reply,
                },
            )
        };
        self.0.shared.handle.call(unregister).await?;
        self.0.update(connection).await?;
        Ok(())
    }

    #[zbus(out_args("plan"))]
    async fn plan(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Error> {
        self.visit(connection, &header).await?;
        let plan = |reply| Request::Plan { reply };
        self.0.shared.handle.call(plan).await
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
        self.0.shared.files.reload(&self.0.shared.handle).await?;
        self.0.update(connection).await?;
        Ok(())
    }

    /// Changes of this property are not announced: a client that wants to know asks.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probes(&self) -> String {
        match &self.0.shared.handle.snapshot().probes {
            ProbeState::Off => "off".into(),
            ProbeState::On { .. } => "on".into(),
            ProbeState::Missing(problem) => format!("missing: {problem}"),
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

    #[zbus(out_args("processes"))]
    async fn list_processes(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<Vec<HashMap<String, OwnedVariant>>, Error> {
        let caller = Visit::of(self.0.door, connection, &header).await?.caller;
        let _turn = self.0.shared.limits.turn(caller.uid).await;
        let snapshot = self.0.shared.handle.snapshot();
        let visible = |uid| caller.privileged || Some(caller.uid) == uid;
        let processes = snapshot.processes.iter();
        processes
            .filter(|process| visible(process.uid))
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
    put("comm", Some(process.comm.as_str().into()))?;
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
    put("origin", process.origin.as_deref().map(Variant::from))?;
    put("agent_bytes", process.agent.map(|bytes| bytes.0.into()))?;
    put("kept_for_processes_bytes", kept(process.kept.for_processes))?;
    put("kept_for_devices_bytes", kept(process.kept.for_devices))?;
    let disagreement = process.disagreement.map(Disagreement::name);
    put("disagreement", disagreement.map(Variant::from))?;
    Ok(fields)
}
