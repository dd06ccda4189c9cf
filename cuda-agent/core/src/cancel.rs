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
}

const DISABLE: c_int = 1;

/// What the calling thread's cancellation was.
#[derive(Clone, Copy, Debug)]
#[must_use = "the thread can never be cancelled again without `restore`"]
pub struct Cancellation(c_int);

/// Puts the calling thread's cancellation off until [`Cancellation::restore`].
pub fn put_off() -> Cancellation {
    let mut old = DISABLE;
    // SAFETY: writes the old state to a local; it may be called at any time.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    Cancellation(old)
}

impl Cancellation {
    /// What it was. A thread of the asynchronous kind that was cancelled meanwhile ends here and
    /// unwinds: the callers' frames may hold nothing that has to be dropped.
    pub fn restore(self) {
        // SAFETY: gives the thread a state that it had.
        unsafe { pthread_setcancelstate(self.0, core::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_stretch_ends_with_the_outer_one() {
        let outer = put_off();
        assert_eq!(outer.0, 0, "PTHREAD_CANCEL_ENABLE");
        let inner = put_off();
        assert_eq!(inner.0, DISABLE);
        inner.restore();
        let state = put_off();
        assert_eq!(state.0, DISABLE, "the outer stretch goes on");
        state.restore();
        outer.restore();
        let state = put_off();
        assert_eq!(state.0, 0);
        state.restore();
    }
}
