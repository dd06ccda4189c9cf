//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::Error;
use simgpu_core::driver::{HostCall, current, driver};

use crate::abi::{Out, given, stream};

api! {
    2000 early fn cuStreamCreate(handle: Out<usize>, flags: c_uint) {
        handle.check()?;
        let stream = current()?.create_stream(flags, 0)?;
        handle.set(driver()?.streams.insert(&stream))
    }

    5050 early fn cuStreamCreateWithPriority(handle: Out<usize>, flags: c_uint, priority: c_int) {
        handle.check()?;
        let stream = current()?.create_stream(flags, priority)?;
        handle.set(driver()?.streams.insert(&stream))
    }

    4000 early fn cuStreamDestroy_v2(handle: usize) {
        given(handle)?;
        driver()?.destroy_stream(handle)
    }

    2000 fn cuStreamSynchronize | cuStreamSynchronize_ptsz(on: usize) |default| {
        let (context, stream) = stream(on, default)?;
        context.synchronize_stream(&stream)
    }

    2000 fn cuStreamQuery | cuStreamQuery_ptsz(on: usize) |default| {
        let (context, stream) = stream(on, default)?;
        if context.is_idle(&stream)? { Ok(()) } else { Err(Error::NotReady) }
    }

    3020 fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz(
        on: usize, event: usize, flags: c_uint,
    ) |default| {
        let (_, stream) = stream(on, default)?;
        let event = driver()?.events.get(event).ok_or(Error::InvalidHandle)?;
        match flags {
            0 => event.hold_back(&stream),
            // External: in a capture, a node.
            1 => event.hold_back_external(&stream),
            _ => Err(Error::InvalidValue),
        }
    }

    9020 early fn cuStreamGetCtx | cuStreamGetCtx_ptsz(on: usize, handle: Out<usize>) |default| {
        handle.check()?;
        let (context, _) = stream(on, default)?;
        if context.primary().is_some() {
            // Which of the two contexts a green one's stream belongs to only the later form tells.
            return Err(Error::NotSupported);
        }
        handle.set(context.handle())
    }

    12050 early fn cuStreamGetCtx_v2 | cuStreamGetCtx_v2_ptsz(
        on: usize, handle: Out<usize>, green: Out<usize>,
    ) |default| {
        handle.check()?;
        let (context, _) = stream(on, default)?;
        handle.set(context.primary().unwrap_or_else(|| context.clone()).handle())?;
        green.set_if_wanted(driver()?.green_of(&context));
        Ok(())
    }

    12080 fn cuStreamGetDevice | cuStreamGetDevice_ptsz(on: usize, device: Out<c_int>) |default| {
        let (context, _) = stream(on, default)?;
        device.set(context.gpu() as c_int)
    }

    5050 early fn cuStreamGetFlags | cuStreamGetFlags_ptsz(on: usize, flags: Out<c_uint>) |default| {
        flags.check()?;
        let (_, stream) = stream(on, default)?;
        flags.set(stream.flags)
    }

    5050 early fn cuStreamGetPriority | cuStreamGetPriority_ptsz(
        on: usize, priority: Out<c_int>,
    ) |default| {
        priority.check()?;
        let (_, stream) = stream(on, default)?;
        priority.set(stream.priority)
    }

    12000 early fn cuStreamGetId | cuStreamGetId_ptsz(on: usize, id: Out<u64>) |default| {
        id.check()?;
        let (_, stream) = stream(on, default)?;
        id.set(stream.id)
    }

    5000 fn cuStreamAddCallback | cuStreamAddCallback_ptsz(
        on: usize,
        callback: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void)>,
        data: usize,
        flags: c_uint,
    ) |default| {
        let (context, stream) = stream(on, default)?;
        let callback = callback.filter(|_| flags == 0).ok_or(Error::InvalidValue)?;
        context.call_host(&stream, HostCall::Callback(callback, on, data))
    }

    10000 fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz(
        on: usize,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: usize,
    ) |default| {
        let (context, stream) = stream(on, default)?;
        let function = function.ok_or(Error::InvalidValue)?;
        context.call_host(&stream, HostCall::Function(function, data))
    }
}
