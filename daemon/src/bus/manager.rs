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
        let visible = |uid| caller.privileged || caller.uid == uid;
        let processes = snapshot.processes.iter();
        processes
            .filter(|process| visible(process.uid))
            .map(|process| {
                let comm = zbus::Variant::from(process.comm.as_str());
                let task = rtswap_dbus::task_path(process.task);
                Ok(HashMap::from([
                    ("pid".to_owned(), process.pid.into()),
                    ("uid".to_owned(), process.uid.into()),
                    ("comm".to_owned(), comm.try_into()?),
                    ("task".to_owned(), zbus::Variant::from(task).try_into()?),
                    ("attached".to_owned(), process.attached.into()),
                ]))
            })
            .collect()
    }
}
