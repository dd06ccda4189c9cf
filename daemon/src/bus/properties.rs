//! The interfaces `org.rtswap.Task1` and `org.rtswap.Gpu1`: the properties of one task or GPU of the
//! snapshot, as their reader may see them.
//!
//! zbus's macro makes an interface of one getter for each property, and reads them one after another: a
//! reader's rights would be looked up for each, and an answer would mix states.

use std::collections::HashMap;
use std::fmt::Write;

use rtswap_dbus::objects::Property;
use rtswap_dbus::{Error, GpuProperties, TaskProperties};
use zbus::export::async_trait::async_trait;
use zbus::message::Header;
use zbus::names::{InterfaceName, MemberName};
use zbus::object_server::{DispatchResult, Interface, SignalEmitter};
use zbus::{BoxDBusError, Connection, Message, ObjectServer, OwnedVariant, Variant, fdo};

use super::Shared;
use super::auth::Door;
use super::read_only::{read_only, refuse_set};
use super::viewer::{Values, Viewer, running};
use crate::dispatch::Snapshot;

/// One task's object.
#[derive(Clone, Debug)]
pub(super) struct Task1 {
    shared: Shared,
    door: Door,
    id: u64,
    /// The values served between the end of the task and the removal of its object.
    gone: TaskProperties,
}

impl Task1 {
    /// The object of the registration `id`, with its `first` values.
    pub(super) fn new(shared: Shared, door: Door, id: u64, first: &TaskProperties) -> Self {
        let gone = TaskProperties {
            phase: "gone".into(),
            process_id: 0,
            process_ids: Vec::new(),
            waits: String::new(),
            ..first.clone()
        };
        Self {
            shared,
            door,
            id,
            gone,
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as that of Gpu1")]
    fn owner(&self, _: &Snapshot) -> Option<u32> {
        Some(self.gone.user_id)
    }

    fn values(&self, snapshot: &Snapshot, viewer: Viewer) -> Values {
        viewer.task_values(snapshot.tasks.get(&self.id).unwrap_or(&self.gone))
    }
}

/// One GPU's object.
#[derive(Clone, Debug)]
pub(super) struct Gpu1 {
    shared: Shared,
    door: Door,
    index: usize,
    first: GpuProperties,
}

impl Gpu1 {
    /// The object of the GPU with this `index`, with its `first` values. A GPU does not go.
    pub(super) fn new(shared: Shared, door: Door, index: usize, first: GpuProperties) -> Self {
        Self {
            shared,
            door,
            index,
            first,
        }
    }

    fn of<'a>(&'a self, snapshot: &'a Snapshot) -> &'a GpuProperties {
        snapshot.gpus.get(self.index).unwrap_or(&self.first)
    }

    fn owner(&self, snapshot: &Snapshot) -> Option<u32> {
        running(self.of(snapshot), snapshot)
    }

    fn values(&self, snapshot: &Snapshot, viewer: Viewer) -> Values {
        viewer.gpu_values(self.of(snapshot), snapshot)
    }
}

/// An interface of properties alone, read-only, as a property list has them.
macro_rules! interface {
    ($type:ident is $interface:expr, of $properties:ident) => {
        impl $type {
            /// The values that the sender of `header` sees.
            async fn seen(
                &self,
                connection: &Connection,
                header: Option<&Header<'_>>,
            ) -> Result<Values, Error> {
                let snapshot = self.shared.handle.snapshot();
                let owner = self.owner(&snapshot);
                let limits = &self.shared.limits;
                let viewer = Viewer::of(self.door, connection, header, limits, owner).await?;
                Ok(self.values(&snapshot, viewer))
            }
        }

        #[async_trait]
        impl Interface for $type {
            fn name() -> InterfaceName<'static> {
                InterfaceName::from_static_str_unchecked($interface)
            }

            async fn get(
                &self,
                name: &str,
                _: &ObjectServer,
                connection: &Connection,
                header: Option<&Header<'_>>,
                _: &SignalEmitter<'_>,
            ) -> Option<Result<OwnedVariant, BoxDBusError>> {
                let value = match self.seen(connection, header).await {
                    Ok(mut values) => match values.remove(name) {
                        Some(value) => Ok(value),
                        None if $properties::is_property(name) => Err(hidden(name)),
                        None => return None,
                    },
                    Err(error) => Err(error),
                };
                let value = value.and_then(|value| Ok(OwnedVariant::try_from(value)?));
                Some(value.map_err(|error| Box::new(error) as BoxDBusError))
            }

            async fn get_all(
                &self,
                _: &ObjectServer,
                connection: &Connection,
                header: Option<&Header<'_>>,
                _: &SignalEmitter<'_>,
            ) -> fdo::Result<HashMap<String, OwnedVariant>> {
                let values = self.seen(connection, header).await;
                let values = values.map_err(|error| fdo::Error::AccessDenied(error.to_string()))?;
                let owned = |(name, value): (&str, Variant<'static>)| {
                    Ok((name.to_owned(), value.try_into()?))
                };
                values.into_iter().map(owned).collect()
            }

            fn set<'call>(
                &'call self,
                name: &'call str,
                _: &'call Variant<'_>,
                _: &'call ObjectServer,
                _: &'call Connection,
                _: Option<&'call Header<'_>>,
                _: &'call SignalEmitter<'_>,
            ) -> DispatchResult<'call> {
                refuse_set(name)
            }

            async fn set_mut(
                &mut self,
                name: &str,
                _: &Variant<'_>,
                _: &ObjectServer,
                _: &Connection,
                _: Option<&Header<'_>>,
                _: &SignalEmitter<'_>,
            ) -> Option<Result<(), BoxDBusError>> {
                Some(Err(read_only(name)))
            }

            fn call<'call>(
                &'call self,
                _: &'call ObjectServer,
                _: &'call Connection,
                _: &'call Message,
                _: MemberName<'call>,
            ) -> DispatchResult<'call> {
                DispatchResult::NotFound
            }

            fn call_mut<'call>(
                &'call mut self,
                _: &'call ObjectServer,
                _: &'call Connection,
                _: &'call Message,
                _: MemberName<'call>,
            ) -> DispatchResult<'call> {
                DispatchResult::NotFound
            }

            fn introspect_to_writer(&self, writer: &mut dyn Write, level: usize) {
                introspect($interface, $properties::list(), writer, level);
            }
        }
    };
}

interface!(Task1 is rtswap_dbus::TASK, of TaskProperties);
interface!(Gpu1 is rtswap_dbus::GPU, of GpuProperties);

fn hidden(name: &str) -> Error {
    Error::AccessDenied(format!(
        "{name} of a task is shown to its user, to root and to users that may manage others' tasks"
    ))
}

/// The XML of an interface, its properties by name as zbus's macro has them.
fn introspect(name: &str, mut list: Vec<Property>, writer: &mut dyn Write, level: usize) {
    list.sort_unstable_by_key(|property| property.name);
    let mut line = |deeper: usize, text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(writer, "{:width$}{text}", "", width = level + deeper);
    };
    line(0, &format!("<interface name=\"{name}\">"));
    for property in list {
        let Property {
            name,
            signature,
            emits,
            ..
        } = property;
        let head = format!("<property name=\"{name}\" type=\"{signature}\" access=\"read\"");
        if emits == "true" {
            line(2, &format!("{head}/>"));
            continue;
        }
        let emitted = "org.freedesktop.DBus.Property.EmitsChangedSignal";
        line(2, &format!("{head}>"));
        line(
            4,
            &format!("<annotation name=\"{emitted}\" value=\"{emits}\"/>"),
        );
        line(2, "</property>");
    }
    line(0, "</interface>");
}
