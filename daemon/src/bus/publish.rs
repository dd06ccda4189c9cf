//! The objects of a connection, kept equal to the snapshot, and the signals of their changes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use rtswap_dbus::{GPU, GpuProperties, TASK, TaskProperties};
use tokio::sync::Mutex;
use zbus::fdo::Properties;
use zbus::names::InterfaceName;
use zbus::object_server::{Interface, SignalEmitter};
use zbus::{Connection, OwnedObjectPath, Variant};

use super::Shared;
use super::auth::Door;
use super::properties::{Gpu1, Task1};
use super::viewer::Viewer;
use crate::dispatch::Snapshot;

/// The objects that one connection serves now.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) shared: Shared,
    /// The way by which the connection's calls come in.
    pub(super) door: Door,
    /// Locked during each update, so that two of them do not cross. None before objects are served.
    told: Mutex<Option<Told>>,
}

/// The objects that are served, with the values that were announced last.
#[derive(Debug, Default)]
struct Told {
    tasks: BTreeMap<u64, TaskProperties>,
    gpus: Vec<GpuProperties>,
}

impl Published {
    /// Serves nothing until [`Self::begin`].
    pub(super) fn new(shared: Shared, door: Door) -> Self {
        Self {
            shared,
            door,
            told: Mutex::new(None),
        }
    }

    /// Begins to serve: the objects of the latest snapshot, and `root`, which lists them.
    pub(super) async fn begin<I: Interface>(
        &self,
        connection: &Connection,
        root: I,
    ) -> zbus::Result<()> {
        let mut told = self.told.lock().await;
        let snapshot = self.shared.handle.snapshot();
        let told = told.insert(Told::default());
        // If the root were added last, zbus would hold the properties of all objects in memory at once.
        let server = connection.object_server();
        server.at(rtswap_dbus::ROOT_PATH, root).await?;
        self.serve(connection, told, &snapshot).await
    }

    /// Adds and removes objects until they are those of the latest snapshot, which is returned.
    pub(super) async fn update(&self, connection: &Connection) -> zbus::Result<Arc<Snapshot>> {
        let mut told = self.told.lock().await;
        let snapshot = self.shared.handle.snapshot();
        if let Some(told) = &mut *told {
            self.serve(connection, told, &snapshot).await?;
        }
        Ok(snapshot)
    }

    /// As [`Self::update`], and announces the changed properties of the objects that stay.
    pub(super) async fn announce(&self, connection: &Connection) -> zbus::Result<()> {
        let mut told = self.told.lock().await;
        let snapshot = self.shared.handle.snapshot();
        let Some(told) = &mut *told else {
            return Ok(());
        };
        self.serve(connection, told, &snapshot).await?;
        let viewer = Viewer::of_peer(self.door, connection).await;
        for (id, task) in &snapshot.tasks {
            let Some(before) = told.tasks.get_mut(id).filter(|before| *before != task) else {
                continue;
            };
            let path = rtswap_dbus::task_path(*id);
            let (changes, mut hidden) = viewer.task_changes(task, before);
            // On a bus the owner hears the same signal, and asks for what it may see. The client of a socket
            // would ask in vain.
            if self.door == Door::Socket {
                hidden.clear();
            }
            changed(connection, path, TASK, changes, hidden).await?;
            before.clone_from(task);
        }
        for (gpu, before) in snapshot.gpus.iter().zip(&mut told.gpus) {
            let path = rtswap_dbus::gpu_path(gpu.index);
            changed(connection, path, GPU, gpu.changes(before), Vec::new()).await?;
            before.clone_from(gpu);
        }
        Ok(())
    }

    async fn serve(
        &self,
        connection: &Connection,
        told: &mut Told,
        snapshot: &Snapshot,
    ) -> zbus::Result<()> {
        let server = connection.object_server();
        for (index, first) in snapshot.gpus.iter().enumerate().skip(told.gpus.len()) {
            let gpu = Gpu1::new(self.shared.clone(), self.door, index, first.clone());
            server.at(rtswap_dbus::gpu_path(index as u32), gpu).await?;
            told.gpus.push(first.clone());
        }
        let ended = told.tasks.keys().copied();
        let ended: Vec<_> = ended
            .filter(|id| !snapshot.tasks.contains_key(id))
            .collect();
        for id in ended {
            told.tasks.remove(&id);
            server
                .remove::<Task1, _>(rtswap_dbus::task_path(id))
                .await?;
        }
        for (&id, first) in &snapshot.tasks {
            if let Entry::Vacant(untold) = told.tasks.entry(id) {
                let task = Task1::new(self.shared.clone(), self.door, id, first);
                server.at(rtswap_dbus::task_path(id), task).await?;
                untold.insert(first.clone());
            }
        }
        Ok(())
    }
}

/// Announces the changed properties of one object, if there are any, `hidden` ones without their values.
async fn changed(
    connection: &Connection,
    path: OwnedObjectPath,
    interface: &'static str,
    changes: HashMap<&str, Variant<'_>>,
    hidden: Vec<&str>,
) -> zbus::Result<()> {
    if changes.is_empty() && hidden.is_empty() {
        return Ok(());
    }
    let emitter = SignalEmitter::new(connection, path)?;
    let interface = InterfaceName::from_static_str_unchecked(interface);
    Properties::properties_changed(&emitter, interface, changes, Cow::from(hidden)).await
}
