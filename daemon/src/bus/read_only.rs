//! An interface of read-only properties says so: zbus's macro calls a property that it cannot set unknown.

use std::collections::HashMap;
use std::fmt::Write;

use zbus::export::async_trait::async_trait;
use zbus::message::Header;
use zbus::names::{InterfaceName, MemberName};
use zbus::object_server::{DispatchResult, Interface, SignalEmitter};
use zbus::{BoxDBusError, Connection, Message, ObjectServer, OwnedVariant, Variant, fdo};

/// The interface, as it is but for the answer to a set of a property.
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

    // The default would have zbus lock the object for a `set_mut`, and a method that waits (for a password) holds that
    // lock: one client could stop all others.
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

/// The answer to a set of a property, whatever it is: none may be set.
pub(super) fn refuse_set(name: &str) -> DispatchResult<'_> {
    DispatchResult::Async(Box::pin(async move { Err(read_only(name)) }))
}

/// Why a property cannot be set.
pub(super) fn read_only(name: &str) -> BoxDBusError {
    fdo::Error::PropertyReadOnly(format!("{name} is read-only")).into()
}
