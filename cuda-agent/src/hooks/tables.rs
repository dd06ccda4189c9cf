//! The driver's private tables: handed out as they are, and reported.

use core::ffi::c_void;

use rtswap_agent_core::agent::may_start;
use rtswap_agent_core::cuda::Status;
use rtswap_agent_core::tables::asked;

use super::hooks;

hooks! {
    reentrant export_table: cuGetExportTable (table: *mut *const c_void, id: *const [u8; 16]);
}

unsafe fn export_table(
    real: cuGetExportTable::Function,
    table: *mut *const c_void,
    id: *const [u8; 16],
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(table, id) };
    // SAFETY: the driver read it.
    if let Some(id) = unsafe { id.as_ref() }.filter(|_| may_start()) {
        asked(*id, status == Status::SUCCESS);
    }
    status
}
