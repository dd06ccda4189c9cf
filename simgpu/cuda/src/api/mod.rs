//! The functions by area; each area lists what it exports.

mod context;
mod copy;
mod device;
mod event;
mod init;
mod ipc;
mod launch;
mod memory;
mod module;
mod peer;
mod pool;
mod procaddr;
mod stream;
mod unsupported;
mod vmm;

use crate::export::Export;

/// Everything exported.
pub(crate) fn exports() -> impl Iterator<Item = &'static Export> {
    [
        init::TABLE,
        device::TABLE,
        context::TABLE,
        memory::TABLE,
        ipc::TABLE,
        peer::TABLE,
        pool::TABLE,
        vmm::TABLE,
        copy::TABLE,
        stream::TABLE,
        event::TABLE,
        module::TABLE,
        launch::TABLE,
        procaddr::TABLE,
        unsupported::TABLE,
    ]
    .into_iter()
    .flatten()
}
