//! Memory and events of other processes.

use std::ffi::c_uint;

use simgpu_core::driver::{Event, IPC_HANDLE_BYTES, current, driver};
use simgpu_core::{Error, Result};

use crate::abi::{IpcHandle, Out};

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, which must be given before CUDA 11 and
/// may be left out since.
const LAZY_PEER_ACCESS: c_uint = 1;

api! {
    4010 early fn cuIpcGetMemHandle(handle: Out<[u8; IPC_HANDLE_BYTES]>, address: u64) {
        handle.check()?;
        current()?.check()?;
        handle.set(driver()?.ipc_handle(address)?)
    }

    11000 early fn cuIpcOpenMemHandle_v2(address: Out<u64>, handle: IpcHandle, flags: c_uint) {
        open(&address, &handle, flags)
    }

    4010 early fn cuIpcGetEventHandle(handle: Out<[u8; IPC_HANDLE_BYTES]>, of: usize) {
        handle.check()?;
        handle.set(super::event::event(of)?.ipc_handle()?)
    }

    4010 early fn cuIpcOpenEventHandle(opened: Out<usize>, handle: IpcHandle) {
        opened.check()?;
        current()?.check()?;
        opened.set(driver()?.events.insert(&Event::open(&handle.0)?))
    }

    4010 fn cuIpcCloseMemHandle(address: u64) {
        current()?.drain()?;
        driver()?.close_ipc(address)
    }
}

pub(super) fn open(address: &Out<u64>, handle: &IpcHandle, flags: c_uint) -> Result<()> {
    address.check()?;
    let context = current()?;
    context.check()?;
    if flags & !LAZY_PEER_ACCESS != 0 {
        return Err(Error::InvalidValue);
    }
    address.set(driver()?.open_ipc(&context, &handle.0)?)
}
