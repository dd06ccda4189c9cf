//! `org.freedesktop.DBus.ObjectManager` on the root object; each answer comes from one snapshot.
//!
//! zbus's own reads each property by itself, so that an answer mixes states, and it lists the empty
//! parents `/org/rtswap/task` and `/org/rtswap/gpu`. It still sends the signals, for which an
//! interface of this name is enough.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rtswap_dbus::{Error, GPU, TASK};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, ObjectPath, OwnedObjectPath, Variant};

use super::auth::Visit;
use super::publish::Published;
use super::viewer::{Values, Viewer};

/// The ObjectManager of one connection.
#[derive(Clone, Debug)]
pub(super) struct Objects(pub(super) Arc<Published>);

type Managed = HashMap<OwnedObjectPath, BTreeMap<&'static str, Values>>;

#[zbus::interface(
    name = "org.freedesktop.DBus.ObjectManager",
    introspection_docs = false
)]
impl Objects {
    #[zbus(out_args("objects"))]
    async fn get_managed_objects(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<Managed, Error> {
        let visit = Visit::of(self.0.door, connection, &header).await?;
        let limits = &self.0.shared.limits;
        let _turn = limits.turn(visit.caller.uid).await;
        // Each object must be served before its path is in an answer.
        let snapshot = self.0.update(connection).await?;
        let tasks = snapshot.tasks.values();
        let foreign = |viewer: Viewer| tasks.into_iter().any(|task| !viewer.sees(task.user_id));
        let viewer = Viewer::of_visit(&visit, limits, foreign).await;
        let tasks = snapshot.tasks.iter().map(|(id, task)| {
            let path = rtswap_dbus::task_path(*id);
            (path, BTreeMap::from([(TASK, viewer.task_values(task))]))
        });
        let gpus = snapshot.gpus.iter().map(|gpu| {
            let path = rtswap_dbus::gpu_path(gpu.index);
            (
                path,
                BTreeMap::from([(GPU, viewer.gpu_values(gpu, &snapshot))]),
            )
        });
        Ok(tasks.chain(gpus).collect())
    }

    #[zbus(signal)]
    async fn interfaces_added(
        emitter: &SignalEmitter<'_>,
        object: ObjectPath<'_>,
        interfaces: HashMap<&str, HashMap<&str, Variant<'_>>>,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn interfaces_removed(
        emitter: &SignalEmitter<'_>,
        object: ObjectPath<'_>,
        interfaces: &[&str],
    ) -> zbus::Result<()>;
}
