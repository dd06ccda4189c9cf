//! `org.rtswap.Manager1`.

use std::collections::HashMap;

use zbus::{OwnedFd, OwnedObjectPath, OwnedVariant, Variant};

use crate::Error;

/// Registrations and processes.
#[zbus::proxy(
    interface = "org.rtswap.Manager1",
    default_service = "org.rtswap",
    default_path = "/org/rtswap"
)]
pub trait Manager1 {
    /// Registers a task; it ends if no process claims it in time. Options as in
    /// [`crate::Options`].
    fn register(
        &self,
        name: &str,
        options: HashMap<&str, Variant<'_>>,
    ) -> Result<OwnedObjectPath, Error>;

    /// Registers a task that lives until the returned descriptor (and all its copies) are closed.
    fn register_with_lease(
        &self,
        name: &str,
        options: HashMap<&str, Variant<'_>>,
    ) -> Result<(OwnedObjectPath, OwnedFd), Error>;

    /// Ends a registration. A process that runs under it goes on as best-effort.
    fn unregister(&self, task: &zbus::ObjectPath<'_>) -> Result<(), Error>;

    /// The processes that the caller may see: `pid u, uid u, task o, comm s, attached b` of each.
    fn list_processes(&self) -> Result<Vec<HashMap<String, OwnedVariant>>, Error>;
}
