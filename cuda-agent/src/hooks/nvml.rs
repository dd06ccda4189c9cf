//! What a program asks NVIDIA's management library about a GPU's memory: it reads what cuMemGetInfo
//! tells it.
//!
//! NVML is not the driver. It has an error code of its own for a function that is missing, a program
//! uses it without CUDA, and in the child of a fork too. Its handles are valid from one nvmlInit to the
//! next, so the UUID of a handle is asked for each time.

use core::ffi::{c_char, c_uint, c_void};
use core::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::gate;
use rtswap_agent_core::nvml::{Memory, MemoryInfo, MemoryV2, parse_uuid};

use super::real::{NVML, Real};
use super::{Address, Hook, c_name};

/// nvmlDevice_t.
type Device = *mut c_void;

/// nvmlReturn_t.
type Return = c_uint;

/// NVML_SUCCESS.
const SUCCESS: Return = 0;

/// NVML_ERROR_FUNCTION_NOT_FOUND.
const FUNCTION_NOT_FOUND: Return = 13;

/// NVML_DEVICE_UUID_V2_BUFFER_SIZE, in bytes.
const UUID_BYTES: usize = 96;

static UUID: Real = Real::new(&NVML);

/// Exports each `$name`, which fills one struct about one device, and lists it.
macro_rules! memory_hooks {
    ($($name:ident ($memory:ty);)+) => {
        pub(super) static HOOKS: &[Hook] = &[$(
            Hook {
                name: $name::NAME,
                // SAFETY: only its address counts; nobody calls it by this type.
                address: unsafe { transmute::<$name::Function, unsafe extern "C" fn()>($name) },
                real: &$name::REAL,
            },
        )+];
        $(
            #[expect(non_snake_case, reason = "the library's name")]
            mod $name {
                use super::*;
                pub(super) type Function =
                    unsafe extern "C-unwind" fn(Device, *mut $memory) -> Return;
                pub(super) static REAL: Real = Real::new(&NVML);
                pub(super) const NAME: &core::ffi::CStr = c_name(concat!(stringify!($name), "\0"));
            }
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(device: Device, memory: *mut $memory) -> Return {
                let address = $name::REAL.get($name::NAME);
                if address.is_null() {
                    return FUNCTION_NOT_FOUND;
                }
                // SAFETY: the library's function of this name has this signature.
                let real = unsafe { transmute::<Address, $name::Function>(address) };
                // SAFETY: the caller's arguments for the function that it called.
                let status = unsafe { real(device, memory) };
                if status == SUCCESS {
                    // SAFETY: the library has filled it.
                    unsafe { show(device, memory) };
                }
                status
            }
        )+
    };
}

memory_hooks! {
    nvmlDeviceGetMemoryInfo (Memory);
    nvmlDeviceGetMemoryInfo_v2 (MemoryV2);
}

/// Puts the task's own bytes into what NVML has filled, if this process has a session with the GPU.
///
/// # Safety
/// `device` is a live handle, and `memory` may be read and written.
unsafe fn show<T: MemoryInfo>(device: Device, memory: *mut T) {
    // Within the agent its locks may be held.
    let Some(agent) = agent().filter(|_| !gate::is_inside()) else {
        return;
    };
    let cancellation = put_off();
    // After a panic NVML's own answer stands.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the caller's promise.
        let task = unsafe { uuid_of(device) }.and_then(|uuid| agent.memory_info_of(uuid));
        if let Some((free, total)) = task
            // SAFETY: by the caller's promise.
            && let Some(memory) = unsafe { memory.as_mut() }
        {
            memory.show(free, total);
        }
    }));
    cancellation.restore();
}

/// # Safety
/// `device` is a live handle.
unsafe fn uuid_of(device: Device) -> Option<[u8; 16]> {
    let address = UUID.get(c"nvmlDeviceGetUUID");
    if address.is_null() {
        return None;
    }
    // SAFETY: the library's function of this name has this signature.
    let ask = unsafe {
        transmute::<Address, unsafe extern "C" fn(Device, *mut c_char, c_uint) -> Return>(address)
    };
    let mut text = [0_u8; UUID_BYTES];
    // SAFETY: a live handle, and a buffer of the length given.
    let status = unsafe { ask(device, text.as_mut_ptr().cast(), UUID_BYTES as c_uint) };
    let length = text.iter().position(|byte| *byte == 0)?;
    (status == SUCCESS)
        .then(|| parse_uuid(&text[..length]))
        .flatten()
}
