//! The functions by area; each area lists what it exports.

mod array;
mod capture;
mod context;
mod copy;
mod debugger;
mod device;
mod event;
mod first;
mod graph;
mod green;
mod init;
mod ipc;
mod launch;
mod library;
mod managed;
mod memory;
mod module;
mod node;
mod owned;
mod peer;
mod pointer;
mod pool;
mod procaddr;
mod rows;
mod shape;
mod stream;
mod unsupported;
mod value;
mod vmm;

use crate::export::Export;

/// Everything exported.
pub(crate) fn exports() -> impl Iterator<Item = &'static Export> {
    [
        init::TABLE,
        device::TABLE,
        context::TABLE,
        memory::TABLE,
        pointer::TABLE,
        managed::TABLE,
        ipc::TABLE,
        peer::TABLE,
        pool::TABLE,
        vmm::TABLE,
        copy::TABLE,
        rows::TABLE,
        array::TABLE,
        stream::TABLE,
        event::TABLE,
        value::TABLE,
        capture::TABLE,
        graph::TABLE,
        node::TABLE,
        green::TABLE,
        owned::TABLE,
        module::TABLE,
        library::TABLE,
        launch::TABLE,
        procaddr::TABLE,
        first::TABLE,
        unsupported::TABLE,
    ]
    .into_iter()
    .flatten()
}
