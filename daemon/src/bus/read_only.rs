//! An interface of read-only properties says so: zbus's macro calls a property that it cannot set unknown.

use std::collections::HashMap;
use std::fmt::Write;

use zbus::export::async_trait::async_trait;
use zbus::message::Header;
use zbus::names::{InterfaceName, MemberName};
use zbus::object_server::{DispatchResult, Interface, SignalEmitter};
use zbus::{BoxDBusError, Connection, Message, ObjectServer, OwnedVariant, Variant, fdo};

/// The interface, as it is but for the answer to a set of one of its properties.
pub(super) struct ReadOnly<I>(pub(super) I);

#[async_trait]
impl<I: Interface> Interface for ReadOnly<I> {
    fn name() -> InterfaceName<'static> {
        I::name()
    }

    fn spawn_tasks_for_methods(&self) -> bool {
        self.0.spawn_tasks_for_methods()
    }

    async fn get(
        &self,
        name: &str,
        server: &ObjectServer,
        connection: &Connection,
        header: Option<&Header<'_>>,
        emitter: &SignalEmitter<'_>,
    ) -> Option<Result<OwnedVariant, BoxDBusError>> {
        self.0.get(name, server, connection, header, emitter).await
    }

    async fn get_all(
        &self,
        server: &ObjectServer,
        connection: &Connection,
        header: Option<&Header<'_>>,
        emitter: &SignalEmitter<'_>,
    ) -> fdo::Result<HashMap<String, OwnedVariant>> {
        self.0.get_all(server, connection, header, emitter).await
    }

    async fn set_mut(
        &mut self,
        name: &str,
        _: &Variant<'_>,
        server: &ObjectServer,
        connection: &Connection,
        header: Option<&Header<'_>>,
        emitter: &SignalEmitter<'_>,
    ) -> Option<Result<(), BoxDBusError>> {
        self.get(name, server, connection, header, emitter)
            .await?
            .ok();
        Some(Err(read_only(name)))
    }

    fn call<'call>(
        &'call self,
        server: &'call ObjectServer,
        connection: &'call Connection,
        message: &'call Message,
        name: MemberName<'call>,
    ) -> DispatchResult<'call> {
        self.0.call(server, connection, message, name)
    }

    fn call_mut<'call>(
        &'call mut self,
        server: &'call ObjectServer,
        connection: &'call Connection,
        message: &'call Message,
        name: MemberName<'call>,
    ) -> DispatchResult<'call> {
        self.0.call_mut(server, connection, message, name)
    }

    fn introspect_to_writer(&self, writer: &mut dyn Write, level: usize) {
        self.0.introspect_to_writer(writer, level);
    }
}

/// The answer to a set of a property that nobody sets.
pub(super) fn read_only(name: &str) -> BoxDBusError {
    fdo::Error::PropertyReadOnly(format!("{name} is read-only")).into()
}
