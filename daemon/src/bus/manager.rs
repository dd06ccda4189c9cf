//! `org.rtswap.Manager1`.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rtswap_dbus::Error;
use rustix::pipe::{PipeFlags, pipe_with};
use zbus::{Connection, OwnedObjectPath, OwnedVariant};

use super::auth::caller;
use super::limits::Limits;
use super::options;
use super::publish::Published;
use crate::dispatch::{Caller, Handle, Request};
use crate::registry::RegistrationId;

/// The root object.
#[derive(Clone, Debug)]
pub(super) struct Manager1 {
    handle: Handle,
    published: Arc<Published>,
    limits: Limits,
}

impl Manager1 {
    /// Of one connection, whose objects are `published`.
    pub(super) fn new(handle: Handle, published: Arc<Published>, limits: Limits) -> Self {
        Self {
            handle,
            published,
            limits,
        }
    }

    /// Who calls to change something, if it may do so again.
    async fn changer(&self, connection: &Connection) -> Result<Caller, Error> {
        let caller = caller(connection).await?;
        if self.limits.call(caller.uid, Instant::now()) {
            return Ok(caller);
        }
        Err(Error::Busy(format!(
            "user {} calls too often; wait a second",
            caller.uid
        )))
    }

    async fn add(
        &self,
        connection: &Connection,
        name: &str,
        options: HashMap<String, OwnedVariant>,
        lease: Option<OwnedFd>,
    ) -> Result<OwnedObjectPath, Error> {
        let caller = self.changer(connection).await?;
        let (declaration, process) =
            options::read(name, options).map_err(Error::InvalidArgument)?;
        let register = |reply| Request::Register {
            caller,
            declaration,
            process,
            lease,
            reply,
        };
        let id = self.handle.call(register).await?;
        // So that the caller finds the object that it is told of.
        self.published.update(connection).await?;
        Ok(rtswap_dbus::task_path(id.0))
    }
}

#[zbus::interface(name = "org.rtswap.Manager1", introspection_docs = false)]
impl Manager1 {
    #[zbus(out_args("task"))]
    async fn register(
        &self,
        #[zbus(connection)] connection: &Connection,
        name: &str,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<OwnedObjectPath, Error> {
        self.add(connection, name, options, None).await
    }

    #[zbus(out_args("task", "lease"))]
    async fn register_with_lease(
        &self,
        #[zbus(connection)] connection: &Connection,
        name: &str,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<(OwnedObjectPath, zbus::OwnedFd), Error> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(|error| Error::Busy(format!("no pipe to be had for a lease: {error}")))?;
        let task = self.add(connection, name, options, Some(ours)).await?;
        Ok((task, theirs.into()))
    }

    async fn unregister(
        &self,
        #[zbus(connection)] connection: &Connection,
        task: OwnedObjectPath,
    ) -> Result<(), Error> {
        let caller = self.changer(connection).await?;
        let Some(id) = rtswap_dbus::task_id(task.as_str()) else {
            return Err(Error::NoSuchTask(format!("{} is no task", task.as_str())));
        };
        let unregister = |reply| Request::Unregister {
            caller,
            registration: RegistrationId(id),
            reply,
        };
        self.handle.call(unregister).await?;
        Ok(self.published.update(connection).await?)
    }

    #[zbus(out_args("processes"))]
    async fn list_processes(
        &self,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<HashMap<String, OwnedVariant>>, Error> {
        let caller = caller(connection).await?;
        let snapshot = self.handle.snapshot();
        let visible = |uid| caller.privileged || Some(caller.uid) == uid;
        let processes = snapshot.processes.iter();
        processes
            .filter(|process| visible(process.uid))
            .map(|process| {
                let comm = zbus::Variant::from(process.comm.as_str());
                let mut fields = HashMap::from([
                    ("pid".to_owned(), process.pid.into()),
                    ("comm".to_owned(), comm.try_into()?),
                    ("managed".to_owned(), process.managed.into()),
                    ("attached".to_owned(), process.attached.into()),
                ]);
                if let Some(uid) = process.uid {
                    fields.insert("uid".to_owned(), uid.into());
                }
                if let Some(task) = process.task {
                    let task = zbus::Variant::from(rtswap_dbus::task_path(task));
                    fields.insert("task".to_owned(), task.try_into()?);
                }
                if let Some(gpu) = process.gpu {
                    fields.insert("gpu".to_owned(), (gpu as u32).into());
                }
                if let Some(nvml) = process.nvml {
                    fields.insert("nvml_bytes".to_owned(), nvml.0.into());
                }
                if let Some(agent) = process.agent {
                    fields.insert("agent_bytes".to_owned(), agent.0.into());
                }
                if let Some(named) = process.disagreement {
                    let named = zbus::Variant::from(named);
                    fields.insert("disagreement".to_owned(), named.try_into()?);
                }
                Ok(fields)
            })
            .collect()
    }
}
