//! GPUs that reach each other's memory: all do, once they are let.

use std::ffi::{c_int, c_uint};

use simgpu_core::Error;
use simgpu_core::driver::{current, driver};

use crate::abi::Out;

api! {
    4000 fn cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) {
        driver()?.gpu(device)?;
        driver()?.gpu(peer)?;
        can.set(c_int::from(device != peer))
    }

    8000 fn cuDeviceGetP2PAttribute(
        value: Out<c_int>, attribute: c_uint, device: c_int, peer: c_int,
    ) {
        driver()?.gpu(device)?;
        driver()?.gpu(peer)?;
        if device == peer {
            return Err(Error::InvalidDevice);
        }
        value.set(match attribute {
            // Rank; access; native atomics; arrays.
            2 => 1,
            1 | 3 | 4 => 0,
            _ => return Err(Error::InvalidValue),
        })
    }

    4000 fn cuCtxEnablePeerAccess(peer: usize, flags: c_uint) {
        let context = current()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        context.enable_peer(&*driver()?.context(peer)?)
    }

    4000 fn cuCtxDisablePeerAccess(peer: usize) {
        current()?.disable_peer(&*driver()?.context(peer)?)
    }
}
