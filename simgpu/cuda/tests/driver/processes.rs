//! Events of other processes.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::stage::{again, call, exported, isolated, made, ok, place, primary};

/// Told to the other process: the handle, in hexadecimal digits.
const HANDLE: &str = "SIMGPU_CUDA_TEST_HANDLE";
const NOT_READY: u32 = 600;
/// CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS.
const SHARED: usize = 6;
/// How long the stream is held up before the event.
const BUSY: Duration = Duration::from_millis(400);

extern "C" fn linger(_: *mut std::ffi::c_void) {
    std::thread::sleep(BUSY);
}

#[test]
fn another_process_waits_for_an_event() {
    let name = "processes::another_process_waits_for_an_event";
    if let Ok(digits) = std::env::var(HANDLE) {
        return isolated(name, &[], || other(&digits));
    }
    isolated(name, &[], || {
        primary();
        assert_eq!(call("cuEventCreate", &[place(&mut [0_u64]), 4]), 1);
        let alone = made("cuEventCreate", &[0]);
        let mut handle = [0_u8; 64];
        assert_eq!(
            call("cuIpcGetEventHandle", &[place(&mut handle), alone]),
            400
        );
        let (event, stream) = (
            made("cuEventCreate", &[SHARED]),
            made("cuStreamCreate", &[1]),
        );
        ok("cuIpcGetEventHandle", &[place(&mut handle), event]);
        ok(
            "cuLaunchHostFunc",
            &[stream, linger as *const () as usize, 0],
        );
        ok("cuEventRecord", &[event, stream]);
        assert_eq!(call("cuEventQuery", &[event]), NOT_READY);
        let digits = handle.iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").unwrap();
            digits
        });
        let started = Instant::now();
        let other = again(name).env(HANDLE, digits).output().unwrap();
        assert!(
            other.status.success(),
            "{}{}",
            String::from_utf8_lossy(&other.stdout),
            String::from_utf8_lossy(&other.stderr)
        );
        assert!(started.elapsed() < 20 * BUSY);
        ok("cuEventQuery", &[event]);
    });
}

fn other(digits: &str) {
    primary();
    let mut handle = [0_u8; 64];
    for (byte, digits) in handle.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    let event = opened(handle);
    let stream = made("cuStreamCreate", &[1]);
    ok("cuStreamWaitEvent", &[stream, event, 0]);
    ok("cuStreamSynchronize", &[stream]);
    // What the stream waited for is what the event says.
    ok("cuEventQuery", &[event]);
    ok("cuEventSynchronize", &[event]);
    ok("cuEventDestroy_v2", &[event]);
}

/// cuIpcOpenEventHandle, whose handle is passed by value.
fn opened(handle: [u8; 64]) -> usize {
    #[repr(C)]
    struct Handle([u8; 64]);
    type Open = unsafe extern "C" fn(*mut usize, Handle) -> u32;
    // SAFETY: cuda.h's type of this function.
    let open: Open = unsafe { std::mem::transmute(exported("cuIpcOpenEventHandle")) };
    let mut event = 0;
    // SAFETY: a place for one handle.
    let code = unsafe { open(&raw mut event, Handle(handle)) };
    assert_eq!(code, 0, "cuIpcOpenEventHandle came to {code}");
    event
}
