//! Thread cancellation. A cancelled thread unwinds its stack, and Rust ends the process where that
//! meets a function with `extern "C"` or a `catch_unwind`. So while a thread of the program is in our
//! own code, its cancellation waits: a driver function need not be a cancellation point (POSIX lists
//! those that must). The driver's own function is called with cancellation as the program set it
//! where a hook does no more than pass the gate; such hooks are `extern "C-unwind"` and hold nothing
//! that has to be dropped, so that the unwinding passes through them.
//!
//! Asynchronous cancellation outside of these stretches cannot be survived: it may strike at any
//! instruction, here as in the driver itself.

use core::ffi::c_int;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;

/// What the calling thread's cancellation was.
#[derive(Clone, Copy, Debug)]
#[must_use = "the thread can never be cancelled again without `restore`"]
pub struct Cancellation {
    state: c_int,
    kind: c_int,
}

/// Puts the calling thread's cancellation off until [`Cancellation::restore`].
pub fn put_off() -> Cancellation {
    let (mut state, mut kind) = (DISABLE, DEFERRED);
    // SAFETY: both write the old setting to a local; they may be called at any time.
    unsafe {
        pthread_setcancelstate(DISABLE, &raw mut state);
        pthread_setcanceltype(DEFERRED, &raw mut kind);
    }
    Cancellation { state, kind }
}

impl Cancellation {
    /// What it was. A thread of the asynchronous kind that was cancelled meanwhile ends here and
    /// unwinds: the callers' frames may hold nothing that has to be dropped.
    pub fn restore(self) {
        let nowhere = core::ptr::null_mut();
        // SAFETY: gives the thread settings that it had. The state first: glibc 2.36 forgets to say
        // PTHREAD_CANCELED where a thread is cancelled by setting it.
        unsafe {
            pthread_setcancelstate(self.state, nowhere);
            if self.kind != DEFERRED {
                pthread_setcanceltype(self.kind, nowhere);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_stretch_ends_with_the_outer_one() {
        let outer = put_off();
        assert_eq!(outer.state, 0, "PTHREAD_CANCEL_ENABLE");
        let inner = put_off();
        assert_eq!(inner.state, DISABLE);
        inner.restore();
        let state = put_off();
        assert_eq!(state.state, DISABLE, "the outer stretch goes on");
        state.restore();
        outer.restore();
        let state = put_off();
        assert_eq!(state.state, 0);
        state.restore();
    }
}
