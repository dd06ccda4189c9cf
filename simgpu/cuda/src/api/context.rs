//! Contexts, and which one is current.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::driver::{current, driver, pop_current, push_current, set_current};
use simgpu_core::{Error, Result};

use crate::abi::{In, Out, nonzero};

/// CU_CTX_FLAGS_MASK without MAP_HOST and what needs tools.
const FLAGS: c_uint = 0xff;
/// What cuCtxGetApiVersion answers for contexts of `cuCtxCreate_v2` and later.
const API_VERSION: c_uint = 3020;
/// The last CUlimit.
const LAST_LIMIT: c_uint = 8;
/// Limits as a fresh context has them: stack, printf, heap, depth, launches, L2.
const LIMITS: [usize; 9] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0];

api! {
    3020 fn cuCtxCreate_v2(context: Out<usize>, flags: c_uint, device: c_int) {
        create(&context, flags, device)
    }

    11040 fn cuCtxCreate_v3(
        context: Out<usize>,
        _affinity: In<c_void>,
        affinity_count: c_int,
        flags: c_uint,
        device: c_int,
    ) {
        if affinity_count != 0 {
            return Err(Error::NotSupported);
        }
        create(&context, flags, device)
    }

    12050 fn cuCtxCreate_v4(
        context: Out<usize>,
        parameters: In<usize>,
        flags: c_uint,
        device: c_int,
    ) {
        if !parameters.is_null() {
            return Err(Error::NotSupported);
        }
        create(&context, flags, device)
    }

    4000 early fn cuCtxDestroy_v2(context: usize) {
        nonzero(context)?;
        destroy(context)
    }

    4000 fn cuCtxPushCurrent_v2(context: usize) {
        push_current(driver()?.context(context)?);
        Ok(())
    }

    4000 fn cuCtxPopCurrent_v2(context: Out<usize>) {
        context.set_if_wanted(pop_current()?.handle());
        Ok(())
    }

    4000 fn cuCtxSetCurrent(context: usize) {
        let driver = driver()?;
        set_current(if context == 0 { None } else { Some(driver.context(context)?) });
        Ok(())
    }

    4000 fn cuCtxGetCurrent(context: Out<usize>) {
        driver()?;
        context.set(current().map_or(0, |now| now.handle()))
    }

    2000 fn cuCtxGetDevice(device: Out<c_int>) {
        device.set(current()?.gpu() as c_int)
    }

    7000 early fn cuCtxGetFlags(flags: Out<c_uint>) {
        flags.check()?;
        flags.set(current()?.flags())
    }

    12010 fn cuCtxSetFlags(flags: c_uint) {
        current()?.set_flags(flags);
        Ok(())
    }

    12000 early fn cuCtxGetId(context: usize, id: Out<u64>) {
        id.check()?;
        let context = if context == 0 { current()? } else { driver()?.context(context)? };
        id.set(context.id)
    }

    2000 fn cuCtxSynchronize() {
        current()?.synchronize()
    }

    3010 fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let context = current()?;
        if limit > LAST_LIMIT {
            return Err(Error::InvalidValue);
        }
        context.set_limit(limit, value);
        Ok(())
    }

    3010 fn cuCtxGetLimit(value: Out<usize>, limit: c_uint) {
        let usual = *LIMITS.get(limit as usize).ok_or(Error::InvalidValue)?;
        value.set(current()?.limit(limit).unwrap_or(usual))
    }

    3020 fn cuCtxGetCacheConfig(config: Out<c_uint>) {
        current()?;
        config.set(0)
    }

    3020 fn cuCtxSetCacheConfig(_config: c_uint) {
        current().map(drop)
    }

    4020 fn cuCtxGetSharedMemConfig(config: Out<c_uint>) {
        current()?;
        // Four bytes a bank.
        config.set(1)
    }

    4020 fn cuCtxSetSharedMemConfig(_config: c_uint) {
        current().map(drop)
    }

    3020 fn cuCtxGetApiVersion(context: usize, version: Out<c_uint>) {
        if context != 0 {
            driver()?.context(context)?;
        }
        version.set(API_VERSION)
    }

    5050 fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        current()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    11000 fn cuCtxResetPersistingL2Cache() {
        current().map(drop)
    }
}

pub(super) fn destroy(context: usize) -> Result<()> {
    let driver = driver()?;
    let is_current = current().is_ok_and(|now| now.handle() == context);
    driver.destroy_context(context)?;
    if is_current {
        pop_current()?;
    }
    Ok(())
}

pub(super) fn create(handle: &Out<usize>, flags: c_uint, device: c_int) -> Result<()> {
    handle.check()?;
    if flags & !FLAGS != 0 {
        return Err(Error::InvalidValue);
    }
    let context = driver()?.create_context(device, flags)?;
    handle.set(context.handle())?;
    push_current(context);
    Ok(())
}
