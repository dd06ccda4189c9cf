//! A connection's objects, kept the snapshot's.

use std::collections::BTreeSet;

use tokio::sync::Mutex;
use zbus::Connection;
use zbus::connection::Builder;

use super::gpu::Gpu1;
use super::task::Task1;
use crate::dispatch::Handle;

/// The objects that one connection serves now.
#[derive(Debug)]
pub(super) struct Published {
    handle: Handle,
    /// By registration and by index. Held while they change, so that two updates do not cross.
    objects: Mutex<(BTreeSet<u64>, usize)>,
}

impl Published {
    /// What the latest snapshot has, to be served from a connection's first call on.
    pub(super) fn new(handle: Handle, builder: Builder<'static>) -> (Self, Builder<'static>) {
        let snapshot = handle.snapshot();
        let gpus = snapshot.gpus.len();
        let builder = (0..gpus).fold(builder, |builder, index| {
            let gpu = Gpu1::new(handle.clone(), index);
            builder.serve_at(rtswap_dbus::gpu_path(index as u32), gpu)
        });
        let tasks: BTreeSet<_> = snapshot.tasks.keys().copied().collect();
        let builder = snapshot
            .tasks
            .iter()
            .fold(builder, |builder, (&id, first)| {
                let task = Task1::new(handle.clone(), id, first);
                builder.serve_at(rtswap_dbus::task_path(id), task)
            });
        let objects = Mutex::new((tasks, gpus));
        (Self { handle, objects }, builder)
    }

    /// Serves what the latest snapshot has, and no more.
    pub(super) async fn update(&self, connection: &Connection) -> zbus::Result<()> {
        let server = connection.object_server();
        let mut objects = self.objects.lock().await;
        let (tasks, gpus) = &mut *objects;
        let snapshot = self.handle.snapshot();
        for index in *gpus..snapshot.gpus.len() {
            let gpu = Gpu1::new(self.handle.clone(), index);
            server.at(rtswap_dbus::gpu_path(index as u32), gpu).await?;
        }
        *gpus = snapshot.gpus.len();
        let now: BTreeSet<_> = snapshot.tasks.keys().copied().collect();
        for &id in tasks.difference(&now) {
            server
                .remove::<Task1, _>(rtswap_dbus::task_path(id))
                .await?;
        }
        for &id in now.difference(tasks) {
            let task = Task1::new(self.handle.clone(), id, &snapshot.tasks[&id]);
            server.at(rtswap_dbus::task_path(id), task).await?;
        }
        *tasks = now;
        Ok(())
    }
}
