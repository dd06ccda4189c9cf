//! Making a thread of the agent's own. Not by `std::thread`: what that does first in a new thread
//! waits for the loader's lock, and the agent may be needed under it, in the constructor of a library
//! that is being loaded.

use core::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use crate::signals::{block_all, restore};

/// Bytes of its stack, as much as Rust's own threads have.
const STACK: usize = 2 << 20;

/// What a thread is given.
struct Start<F> {
    name: &'static CStr,
    body: F,
}

/// Runs `body` in a new thread, which nobody waits for, all signals blocked from its first
/// instruction on. `name` has at most 15 letters.
///
/// `body` touches nothing that needs the loader: no thread-local with a destructor, no symbol that
/// nobody has used before. A panic in it ends the thread, not the process.
///
/// # Errors
/// What the signal mask or pthread_create says; `body` is dropped then.
pub(super) fn spawn_detached<F>(name: &'static CStr, body: F) -> std::io::Result<()>
where
    F: FnOnce() + Send + 'static,
{
    let before = block_all()?;
    let made = create(Box::new(Start { name, body }));
    restore(&before);
    made
}

fn create<F: FnOnce() + Send + 'static>(start: Box<Start<F>>) -> std::io::Result<()> {
    let argument = Box::into_raw(start);
    // SAFETY: attributes on the stack, made and ended here; `run` gets the argument that it takes.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let argument = argument.cast();
        let error =
            libc::pthread_create(&raw mut thread, &raw const attributes, run::<F>, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        error
    };
    if error == 0 {
        return Ok(());
    }
    // SAFETY: made above, and no thread took it.
    drop(unsafe { Box::from_raw(argument) });
    Err(std::io::Error::from_raw_os_error(error))
}

extern "C" fn run<F: FnOnce()>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: what `create` gave away to this function for the same `F`.
    let start = unsafe { Box::from_raw(argument.cast::<Start<F>>()) };
    let Start { name, body } = *start;
    // SAFETY: names the calling thread.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    let _ = catch_unwind(AssertUnwindSafe(body));
    null_mut()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_begins_with_a_name_and_all_signals_blocked() {
        let (said, heard) = mpsc::channel();
        spawn_detached(c"rtswap-test", move || {
            // SAFETY: only asks for the mask of this thread, into one on the stack.
            let blocked = unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut mask);
                [libc::SIGUSR1, libc::SIGTERM, libc::SIGALRM]
                    .map(|number| libc::sigismember(&raw const mask, number))
            };
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            said.send((name, blocked)).unwrap();
            panic!("ends this thread only");
        })
        .unwrap();
        let (name, blocked) = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((name.trim(), blocked), ("rtswap-test", [1; 3]));
        // It drops what it was given when it ends, by whatever way.
        let ended = heard.recv_timeout(Duration::from_secs(20));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
