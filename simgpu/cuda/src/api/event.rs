//! Events.

use std::ffi::{c_float, c_uint};
use std::sync::Arc;

use simgpu_core::driver::{Event, current, driver};
use simgpu_core::{Error, Result};

use crate::abi::{Out, given, stream};

api! {
    2000 fn cuEventCreate(handle: Out<usize>, flags: c_uint) {
        handle.check()?;
        current()?.check()?;
        handle.set(driver()?.events.insert(&Event::new(flags)?))
    }

    4000 early fn cuEventDestroy_v2(handle: usize) {
        given(handle)?;
        driver()?.events.remove(handle).map(drop).ok_or(Error::InvalidHandle)
    }

    2000 fn cuEventRecord | cuEventRecord_ptsz(handle: usize, on: usize) |default| {
        let (_, stream) = stream(on, default)?;
        event(handle)?.record(&stream)
    }

    11010 fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(
        handle: usize, on: usize, flags: c_uint,
    ) |default| {
        let (_, stream) = stream(on, default)?;
        match flags {
            0 => event(handle)?.record(&stream),
            // External: in a capture, a node.
            1 => event(handle)?.record_external(&stream),
            _ => Err(Error::InvalidValue),
        }
    }

    2000 early fn cuEventQuery(handle: usize) {
        given(handle)?;
        event(handle)?.query()
    }

    2000 early fn cuEventSynchronize(handle: usize) {
        given(handle)?;
        event(handle)?.wait()
    }

    2000 early fn cuEventElapsedTime(ms: Out<c_float>, start: usize, end: usize) {
        given(start)?;
        given(end)?;
        ms.set(event(end)?.elapsed_ms(&*event(start)?)?)
    }

    12080 fn cuEventElapsedTime_v2(ms: Out<c_float>, start: usize, end: usize) {
        ms.set(event(end)?.elapsed_ms(&*event(start)?)?)
    }
}

pub(super) fn event(handle: usize) -> Result<Arc<Event>> {
    driver()?.events.get(handle).ok_or(Error::InvalidHandle)
}
